"""Detect members that pull against a direction on which the others agree: compares update directions over rounds.

Distances cannot distinguish a reversed step of honest length from a member with other data; directions can, if the
other members pull the same way. A step is stored as a sketch of 256 numbers whose cosines match those of the whole
steps within about 0.06, so that a coordinator can remember every member's direction without storing models. Decides how
much of each member's weight is withheld. Independent of names and files; admission is decided elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray

WIDTH = 256
"""Numbers in a sketch."""

PIECE = 65_536
"""Values summed into a sketch at a time, aligned to multiples of it, so that the bits depend only on the values."""

MEMORY = 0.9
"""The factor by which a trend keeps earlier rounds: about ten rounds count."""

LEAST_AGREEMENT = 0.15
"""Least mean cosine between the others at which they count as agreeing. Members whose data differ much (Dirichlet 0.1)
stay below it, and so do all once training has converged."""

UNDOUBTED = 0.2
WITHHELD = -0.1
"""A member's mean cosine with the others, relative to theirs among themselves: above the first value all of its weight
counts, below the second none, in between a part. Honest members of one task are near 1."""

RECOVERY = 0.95
"""The part of a doubt that remains after a round without new cause: half of it after fourteen rounds."""

FEWEST_TO_COMPARE = 3
"""With three members, one can pull against the others."""

_SIGNS = np.where(np.random.default_rng(256).integers(0, 2, PIECE) == 1, 1.0, -1.0).astype(np.float32)
"""Must never change: sketches of different rounds and processes must be comparable."""


class Sketch:
    """Sums a step into 256 numbers: every value is added, with a fixed sign, to one of them."""

    def __init__(self) -> None:
        self._sums = np.zeros(WIDTH)

    def add(self, start: int, step: Float32Array) -> None:
        """Add values from position `start`, a multiple of PIECE; all but the last call must pass whole pieces."""
        for first in range(0, step.size, PIECE):
            piece = step[first : first + PIECE]
            signed = np.zeros(PIECE, dtype=np.float32)
            np.multiply(piece, _SIGNS[: piece.size], out=signed[: piece.size])
            sums = signed.reshape(-1, WIDTH).sum(axis=0, dtype=np.float64)
            self._sums += np.roll(sums, (start + first) // PIECE)  # values a piece apart must not add with equal signs

    def text(self) -> str:
        """Return only the direction, one byte per number; empty if there was no step."""
        most = float(np.abs(self._sums).max())
        if not 0.0 < most < np.inf:
            return ""
        return base64.b64encode(np.round(self._sums / most * 127).astype(np.int8).tobytes()).decode("ascii")


def sketch_of(step: Float32Array) -> str:
    """Return the sketch of a step that is entirely in memory."""
    sketch = Sketch()
    sketch.add(0, step)
    return sketch.text()


def extended(trend: FloatArray | None, text: str) -> FloatArray | None:
    """Return a member's trend, (WIDTH,), with one more direction; all steps count equally, however long."""
    if not text:
        return trend
    step = np.frombuffer(base64.b64decode(text), dtype=np.int8).astype(np.float64)
    step /= np.linalg.norm(step)
    return step if trend is None else MEMORY * trend + step


def doubts(trends: FloatArray, before: FloatArray) -> FloatArray:
    """Return (m,): how much of each member is withheld, from 0 to 1. trends: (m, WIDTH). before: the previous doubts.

    A member that pulls against the others while they agree is doubted at once; a doubt fades slowly. Cosines are taken
    with the sum of all unit trends, which no single member can turn: the cost grows with members, not with pairs.
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
class DirectionHistory:
    """The trends and doubts of members that all report in every round; for an engine in one process."""

    trends: list[FloatArray | None]
    doubt: FloatArray

    @staticmethod
    def of(members: int) -> DirectionHistory:
        """Start without any trends or doubts."""
        return DirectionHistory([None] * members, np.zeros(members))

    def note(self, steps: Iterable[Float32Array]) -> None:
        """Add one round. steps: the trained part of each member's step."""
        self.trends = [extended(trend, sketch_of(step)) for trend, step in zip(self.trends, steps, strict=True)]
        known = np.asarray([trend is not None for trend in self.trends])
        if known.any():
            trends = np.stack([trend for trend in self.trends if trend is not None])
            self.doubt[known] = doubts(trends, self.doubt[known])

    def plain(self) -> dict[str, list[Any]]:
        """Return the state as numbers and lists, exact to the bit."""
        return {
            "trends": [None if trend is None else trend.tolist() for trend in self.trends],
            "doubt": self.doubt.tolist(),
        }

    @staticmethod
    def from_plain(found: dict[str, list[Any]]) -> DirectionHistory:
        """Restore what `plain` returned."""
        trends = [None if trend is None else np.asarray(trend) for trend in found["trends"]]
        return DirectionHistory(trends, np.asarray(found["doubt"]))


def withhold(weights: FloatArray, own: tuple[int | None, ...], doubt: FloatArray, *, personal: bool) -> FloatArray:
    """Return (r, m): the weights reduced by the doubts; rows still sum to 1, and without doubts they are unchanged.

    own: for each receiver the position of its own update among the m, or None. A doubted member gives at most an equal
    share, whatever sample count it claims, and less by its doubt. The difference goes to the undoubted members in
    proportion. A member's weight in its own personal model is not reduced.
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
            continue  # no undoubted giver is left: keep all weights rather than none
        row -= lost
        shares = row[heirs] if row[heirs].any() else np.ones(int(heirs.sum()))
        row[heirs] += lost.sum() * shares / shares.sum()
    return found
