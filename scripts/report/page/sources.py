"""Explains who helped whom: a client's strongest sources in W, and the layers in which they are closer than others.

d_ij is the sum of the layers' distances, and W decreases with it. A layer's contribution for a pair is therefore
exactly how much smaller its distance is than the mean of that layer over all of the receiver's peers: these savings add
up to the total saving. A layer is named as the reason only if it accounts for most of that saving.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.report.page.wording import listed, ordinal
from scripts.run.mixing_record import AnyMixing, MixingRecord

MOSTLY = 2 / 3
"""A layer that accounts for at least this share of the saving is the reason; otherwise several layers are."""

ALIKE = 0.75
"""A layer that saves at least this share of another layer's saving counts as a reason equally."""

NAMED = 3
"""If more layers than this are the reason, they are counted instead of named."""


@dataclass(frozen=True, kw_only=True)
class LayerDistance:
    """Distance of a pair in one layer; usual: its mean over all peers of the receiver."""

    layer: str
    distance: float
    usual: float


@dataclass(frozen=True, kw_only=True)
class Helper:
    """One source of one client. layers: empty if distances are not known; because: the reason, based only on these."""

    index: int
    name: str
    weight: float
    layers: tuple[LayerDistance, ...]
    because: str

    @property
    def clause(self) -> str:
        """«takes 0.31 from B because ….»: what follows the receiver's name."""
        return f"takes {self.weight:.2g} from {self.name}{' ' if self.because else ''}{self.because}."


def strongest(mixing: AnyMixing, clients: tuple[str, ...], receiver: int, count: int) -> list[Helper]:
    """Return the sources from which this client takes most, without itself and those of weight zero."""
    row = mixing.row(receiver)
    others = [index for index in np.argsort(-row, kind="stable").tolist() if index != receiver and row[index] > 0]
    found = []
    for index in others[:count]:
        layers = _layers(mixing, receiver, index)
        because = why_close(layers) if layers else ""
        weight = float(row[index])
        found.append(Helper(index=index, name=clients[index], weight=weight, layers=layers, because=because))
    return found


def _layers(mixing: AnyMixing, receiver: int, source: int) -> tuple[LayerDistance, ...]:
    if not isinstance(mixing, MixingRecord) or mixing.distances is None:
        return ()
    peers = [index for index in range(len(mixing.weights)) if index != receiver]
    return tuple(
        LayerDistance(
            layer=layer,
            distance=float(matrix[receiver, source]),
            usual=float(matrix[receiver, peers].mean()),
        )
        for layer, matrix in zip(mixing.layers, mixing.distances, strict=True)
    )


def why_close(layers: tuple[LayerDistance, ...]) -> str:
    """Return the reason as a clause that follows «A takes 0.31 from B»."""
    savings = [layer.usual - layer.distance for layer in layers]
    whole = sum(savings)
    if whole <= 0:
        return "although others are equally close"
    carrying = _carrying(savings, MOSTLY * whole)
    figures = _figures(layers, carrying[:NAMED])
    if len(layers) == 1:
        return f"because their statistics are close{figures}"
    if len(carrying) == len(layers):
        return f"because their statistics are close in {'both' if len(layers) == 2 else 'all'} layers{figures}"
    if len(carrying) > NAMED:
        return f"because their statistics are close in {len(carrying)} of {len(layers)} layers{figures}"
    named = listed([ordinal(at) for at in carrying])
    return f"because their {named}-layer statistics are close{figures}"


def _carrying(savings: list[float], enough: float) -> list[int]:
    """Return the layers that save most, until they save enough together; one that saves about as much is included."""
    found: list[int] = []
    for at in sorted(range(len(savings)), key=lambda at: -savings[at]):
        if sum(savings[one] for one in found) >= enough and savings[at] < ALIKE * savings[found[-1]]:
            break
        found.append(at)
    return sorted(found)


def _figures(layers: tuple[LayerDistance, ...], which: list[int]) -> str:
    shown = [f"{layers[at].layer} {layers[at].distance:.2g}, usually {layers[at].usual:.2g}" for at in which]
    return f" ({'; '.join(shown)})"
