"""Recovering members' updates from what is delivered: solving W X = Y, by who sees all rows and by one member alone.

An error of 1 is what averaging everybody gives without any attack; 0 is the update itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.randomness import generator
from fedap_core.sealing.fixed_point import signed, to_values, to_words


@dataclass(frozen=True, kw_only=True)
class RecoveryErrors:
    """condition: of W. all_rows: who sees every delivered model. one_member: the best that a member gets of the peer
    with the largest weight in its row. sealed: who sees every padded upload of a sealed run. largest: that weight."""

    condition: float
    all_rows: float
    one_member: float
    sealed: float
    largest: float

    def plain(self) -> dict[str, float]:
        return asdict(self)


def recovery(weights: FloatArray, sent: Float32Array, given: Float32Array, seed: int) -> RecoveryErrors:
    """sent: (n, values) true updates; given: (n, values) what was delivered."""
    truth = sent.astype(np.float64)
    centre = truth.mean(axis=0)
    solved = np.linalg.lstsq(weights, given.astype(np.float64), rcond=1e-6)[0]
    largest, alone = 0.0, []
    for place, row in enumerate(weights):
        peers = row.copy()
        peers[place] = -1.0
        peer = int(peers.argmax())
        rest = (given[place] - row[place] * truth[place]) / max(1.0 - row[place], 1e-12)
        alone.append(_error(rest, truth[peer], centre))
        largest = max(largest, float(peers[peer]))
    seen = padded(sent, seed).astype(np.float64)
    return RecoveryErrors(
        condition=float(np.linalg.cond(weights)),
        all_rows=float(np.mean([_error(a, b, centre) for a, b in zip(solved, truth, strict=True)])),
        one_member=float(np.min(alone)),
        sealed=float(np.min([_error(_fitted(a, b), b, centre) for a, b in zip(seen, truth, strict=True)])),
        largest=largest,
    )


def padded(sent: Float32Array, seed: int) -> Float32Array:
    """(n, values): what a coordinator of a sealed run would read out of updates, if it took padded words for values."""
    pads = generator(seed, purpose="audit pads").integers(0, 2**64, sent.shape, dtype=np.uint64, endpoint=False)
    words = np.stack([to_words(row) for row in sent]) + pads
    return np.stack([to_values(signed(row)) for row in words])


def _error(guess: FloatArray, truth: FloatArray, centre: FloatArray) -> float:
    return float(np.linalg.norm(guess - truth)) / max(float(np.linalg.norm(centre - truth)), 1e-12)


def _fitted(seen: FloatArray, truth: FloatArray) -> FloatArray:
    """The best straight line from what is seen to the truth: more than an attacker could have."""
    slope, offset = np.polyfit(seen / np.abs(seen).max(), truth, 1)
    return np.asarray(slope * seen / np.abs(seen).max() + offset)
