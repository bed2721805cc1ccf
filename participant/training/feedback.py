"""The update as the coordinator decodes it, if it differs from the trained weights: saved with the round.

Error feedback: an update that travels as a coarse difference carries over what the round before has lost. What gets
lost stays at home, is saved with the round and added to the next difference, so that it arrives later. An update that a
step changes (noise) is told once and kept as it was told. Under an encoding that sends values, without such steps,
nothing happens here. What is encoded how, `protocol.encodings` says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedap_core.arrays import Float32Array
from fedap_core.nn.state import State
from participant.record.private_state import SavedRound
from participant.training.outgoing import OutgoingTensors
from participant.training.reports import ARRIVED, LOST, flat_weights, travelling_of
from protocol.encodings import DIFFERENCES
from protocol.tensors import Layout, TensorSet


class Feedback:
    """One participant's in one run."""

    def __init__(self, outgoing: OutgoingTensors) -> None:
        self._outgoing = outgoing
        self._delivered: Float32Array | None = None
        self._differs = outgoing.encoding in DIFFERENCES

    def delivered(self, values: Float32Array | None) -> None:
        """What the next update is a difference to; None: nothing was delivered, the update travels in full."""
        if self._differs or self._outgoing.changes:
            self._delivered = None if values is None else values.copy()

    def told(
        self, saved: SavedRound, layout: Layout, before: SavedRound | None, start: State
    ) -> tuple[SavedRound, TensorSet | None]:
        """The round with what its report depends on, and the difference to report: None for weights in full.

        before: the round that was saved last, with what it has lost. start: the model of round 0.
        """
        if not layout.elements or not (self._differs or self._outgoing.changes):
            return saved, None
        values, told, kept = flat_weights(travelling_of(saved), layout), None, {}
        base = self._delivered
        if base is not None and base.size != values.size:
            base = None
        if self._differs:
            error = _kept(before, LOST, values.size)
            lost = np.zeros_like(values) if error is None else error
            if base is not None:
                told, lost = self._outgoing.difference(
                    layout, values, delivered=base, error=lost, round_no=saved.round_no
                )
                kept[ARRIVED] = told.flat() if told.in_full is None else told.in_full.flat()
            kept[LOST] = lost
        if self._outgoing.changes and ARRIVED not in kept:
            base = _kept(before, ARRIVED, values.size) if base is None else base
            base = flat_weights(start, layout) if base is None else base
            kept[ARRIVED] = self._outgoing.weights(layout, values, round_no=saved.round_no, delivered=base).flat()
        extras = {name: torch.from_numpy(array.copy()) for name, array in kept.items()}
        return replace(saved, extras=saved.extras | extras), told


def _kept(saved: SavedRound | None, name: str, size: int) -> Float32Array | None:
    """An extra of an earlier round, if it has this many values."""
    if saved is None or name not in saved.extras or saved.extras[name].numel() != size:
        return None
    found: Float32Array = saved.extras[name].numpy()
    return found
