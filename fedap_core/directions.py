"""Who pulls against what the others agree on: the directions of updates, compared over several rounds.

Distances cannot tell a reversed step of honest length from a member with other data; directions can, wherever the other
members pull the same way. A step is kept as a sketch of 256 numbers whose cosines are those of the whole steps within
about 0.06, so that a coordinator can remember every member's direction without remembering models. Decides how much of
each member is to be withheld. Knows neither names nor files; who may take part at all is decided elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray

WIDTH = 256
"""Numbers of a sketch."""

PIECE = 65_536
"""Values that are summed into a sketch at a time, from multiples of it on: the sums' bits depend on nothing else."""

MEMORY = 0.9
"""What a trend keeps of the rounds before: about ten rounds count."""

LEAST_AGREEMENT = 0.15
"""Mean cosine between the others from which they agree on anything. Members whose data differ much (Dirichlet 0.1) stay
below it, and so does everybody once training has converged."""

UNDOUBTED = 0.2
WITHHELD = -0.1
"""A member's mean cosine with the others, as a share of theirs among themselves: from the first on all of it counts,
below the second nothing, in between a part. Honest members of one task are near 1."""

RECOVERY = 0.95
"""What is left of a doubt after a round that gives no new reason: half of it after fourteen rounds."""

FEWEST_TO_COMPARE = 3
"""Of three members, one may pull against the others."""

_SIGNS = np.where(np.random.default_rng(256).integers(0, 2, PIECE) == 1, 1.0, -1.0).astype(np.float32)
"""Fixed for ever: sketches of different rounds and processes must be comparable."""


class Sketch:
    """One step on its way into 256 numbers: every value is added, with a fixed sign, to one of them."""

    def __init__(self) -> None:
        self._sums = np.zeros(WIDTH)

    def add(self, start: int, step: Float32Array) -> None:
        """Values from place `start` on, which is a multiple of PIECE; all but the last call bring whole pieces."""
        for first in range(0, step.size, PIECE):
            piece = step[first : first + PIECE]
            signed = np.zeros(PIECE, dtype=np.float32)
            np.multiply(piece, _SIGNS[: piece.size], out=signed[: piece.size])
            sums = signed.reshape(-1, WIDTH).sum(axis=0, dtype=np.float64)
            self._sums += np.roll(sums, (start + first) // PIECE)  # values a piece apart must not meet with equal signs

    def text(self) -> str:
        """The direction alone, one byte for each number; empty where there was no step."""
        most = float(np.abs(self._sums).max())
        if not 0.0 < most < np.inf:
            return ""
        return base64.b64encode(np.round(self._sums / most * 127).astype(np.int8).tobytes()).decode("ascii")


def sketch_of(step: Float32Array) -> str:
    """The direction of a step that lies in memory as a whole."""
    sketch = Sketch()
    sketch.add(0, step)
    return sketch.text()


def extended(trend: FloatArray | None, text: str) -> FloatArray | None:
    """A member's trend, (WIDTH,), with one more direction; every step counts alike, however long."""
    if not text:
        return trend
    step = np.frombuffer(base64.b64decode(text), dtype=np.int8).astype(np.float64)
    step /= np.linalg.norm(step)
    return step if trend is None else MEMORY * trend + step


def doubts(trends: FloatArray, before: FloatArray) -> FloatArray:
    """(m,): how much of each member is withheld, from 0 to 1, given the trends (m, WIDTH) and the doubts before.

    Who pulls against the others although these agree is doubted at once; a doubt goes slowly. Cosines are taken with
    the sum of all unit trends, which no single member can turn, so that the cost grows with members, not their pairs.
    """
    members = len(trends)
    now = np.zeros(members)
    lengths = np.linalg.norm(trends, axis=1, keepdims=True)
    if members >= FEWEST_TO_COMPARE and (lengths > 0.0).all():
        units = trends / lengths
        rest = units.sum(axis=0) - units
        others = members - 1
        alike = np.einsum("ij,ij->i", units, rest) / others
        agreement = (np.einsum("ij,ij->i", rest, rest) - others) / (others * (others - 1))
        share = alike / np.maximum(agreement, LEAST_AGREEMENT)
        now = np.clip((UNDOUBTED - share) / (UNDOUBTED - WITHHELD), 0.0, 1.0) * (agreement >= LEAST_AGREEMENT)
    faded = np.where(before * RECOVERY < 0.05, 0.0, before * RECOVERY)
    return np.asarray(np.maximum(now, faded), dtype=np.float64)


@dataclass
class Followed:
    """The trends and doubts of members who all report in every round, as an engine in one process keeps them."""

    trends: list[FloatArray | None]
    doubt: FloatArray

    @staticmethod
    def of(members: int) -> Followed:
        """Nothing is known of anybody yet."""
        return Followed([None] * members, np.zeros(members))

    def note(self, steps: Iterable[Float32Array]) -> None:
        """One round: the trained part of everybody's step."""
        self.trends = [extended(trend, sketch_of(step)) for trend, step in zip(self.trends, steps, strict=True)]
        known = np.asarray([trend is not None for trend in self.trends])
        if known.any():
            trends = np.stack([trend for trend in self.trends if trend is not None])
            self.doubt[known] = doubts(trends, self.doubt[known])

    def plain(self) -> dict[str, list[Any]]:
        """Numbers and lists, to the bit."""
        return {
            "trends": [None if trend is None else trend.tolist() for trend in self.trends],
            "doubt": self.doubt.tolist(),
        }

    @staticmethod
    def from_plain(found: dict[str, list[Any]]) -> Followed:
        """What `plain` said."""
        trends = [None if trend is None else np.asarray(trend) for trend in found["trends"]]
        return Followed(trends, np.asarray(found["doubt"]))


def withhold(weights: FloatArray, own: tuple[int | None, ...], doubt: FloatArray, *, personal: bool) -> FloatArray:
    """(r, m): weights without what is doubted; rows still sum to 1, and without a doubt they are the same.

    own: for each receiver the place of its own update among the m, or None. Who is doubted at all gives no more than an
    equal share, whatever samples it says it has, and less by the doubt. What is taken goes to the others in proportion;
    nobody is protected from itself where the model is personal.
    """
    if not doubt.any():
        return weights
    found = weights.copy()
    for row, mine in zip(found, own, strict=True):
        heirs = (doubt == 0.0) & (row > 0.0)
        givers = row > 0.0
        if personal and mine is not None:
            givers[mine] = False
        equal = row[givers].sum() / max(int(givers.sum()), 1)
        lost = np.where(givers & (doubt > 0.0), row - np.minimum(row, equal) * (1.0 - doubt), 0.0)
        if personal and mine is not None:
            others = heirs.copy()
            others[mine] = False
            heirs = others if others.any() else np.arange(len(row)) == mine
        if not heirs.any():
            continue  # nobody is left to listen to: better all of it than nothing
        row -= lost
        shares = row[heirs] if row[heirs].any() else np.ones(int(heirs.sum()))
        row[heirs] += lost.sum() * shares / shares.sum()
    return found
