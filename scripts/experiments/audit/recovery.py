"""Recovers members' updates from delivered models by solving W X = Y, seeing all rows or only one member's.

An error of 1 is that of guessing the average of all updates, without any attack; 0 is the update itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.randomness import generator
from fedap_core.sealing.fixed_point import signed, to_values, to_words


@dataclass(frozen=True, kw_only=True)
class RecoveryErrors:
    """condition: of W. all_rows: error if every delivered model is seen. one_member: lowest error of a member about the
    peer with the largest weight in its row. sealed: if every padded upload of a sealed run is seen. largest: that
    weight."""

    condition: float
    all_rows: float
    one_member: float
    sealed: float
    largest: float


def recovery(weights: FloatArray, sent: Float32Array, given: Float32Array, seed: int) -> RecoveryErrors:
    """Attempt all recoveries. sent: (n, values), true updates; given: (n, values), delivered models."""
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
    """Return (n, values) as the coordinator of a sealed run would read updates if it took padded words for values."""
    pads = generator(seed, purpose="audit pads").integers(0, 2**64, sent.shape, dtype=np.uint64, endpoint=False)
    words = np.stack([to_words(row) for row in sent]) + pads
    return np.stack([to_values(signed(row)) for row in words])


def _error(guess: FloatArray, truth: FloatArray, centre: FloatArray) -> float:
    return float(np.linalg.norm(guess - truth)) / max(float(np.linalg.norm(centre - truth)), 1e-12)


def _fitted(seen: FloatArray, truth: FloatArray) -> FloatArray:
    """Fit the truth linearly to what is seen: more than an attacker could do."""
    slope, offset = np.polyfit(seen / np.abs(seen).max(), truth, 1)
    return np.asarray(slope * seen / np.abs(seen).max() + offset)
