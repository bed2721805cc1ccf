"""Applies to models what the wire would do, for engines without one: `protocol.encodings`' conversions, in order.

Updates and mixed models are converted as the plan's encoding says, so a run without a network has the same bits as one
with it. Under f32 nothing changes. The encoding error of differences is part of a saved round (`FEEDBACK`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedap_core.arrays import Float32Array
from protocol.compression import COMPRESSED, compressed
from protocol.encodings import DIFFERENCES, Encoding, downward, from_wire, to_wire, with_feedback

FEEDBACK = "feedback.npy"
"""File beside saved models: what every client received, and its encoding error so far; (2, clients, values)."""


class Transport:
    """Both directions for all clients of one run."""

    def __init__(self, encoding: Encoding, rows: Sequence[Float32Array]) -> None:
        self._encoding: Encoding = encoding
        differs = encoding in DIFFERENCES
        self._lost = np.zeros((len(rows), rows[0].size), dtype=np.float32) if differs else None
        self._given = np.zeros_like(self._lost) if self._lost is not None else None
        self.kept_share: float | None = None
        """Share of the latest updates' bytes that compression left; None if nothing is compressed."""

    def deliver(self, rows: Sequence[Float32Array], chosen: Sequence[int] | None = None) -> None:
        """Convert rows to what arrives at their clients. chosen: who receives a model; None: everybody."""
        if self._encoding == "f32":
            return
        way = downward(self._encoding)
        for number in range(len(rows)) if chosen is None else chosen:
            rows[number][...] = from_wire(to_wire(rows[number], way), way, rows[number].size)
            if self._given is not None:
                self._given[number] = rows[number]

    def report(self, rows: Sequence[Float32Array], chosen: Sequence[int] | None = None) -> None:
        """Convert trained rows to what arrives at the coordinator."""
        if self._encoding == "f32":
            return
        plain = sent = 0
        for number in range(len(rows)) if chosen is None else chosen:
            row = rows[number]
            if self._lost is None or self._given is None:
                wire = to_wire(row, self._encoding)
                row[...] = from_wire(wire, self._encoding, row.size)
            else:
                wire, row[...], self._lost[number] = with_feedback(
                    row, delivered=self._given[number], error=self._lost[number], encoding=self._encoding
                )
            plain += wire.nbytes
            sent += memoryview(compressed(wire, self._encoding)).nbytes
        self.kept_share = sent / plain if self._encoding in COMPRESSED and plain else None

    def save(self, folder: Path) -> None:
        """Write what the next round depends on."""
        if self._lost is not None and self._given is not None:
            np.save(folder / FEEDBACK, np.stack([self._given, self._lost]), allow_pickle=False)

    def load(self, folder: Path) -> None:
        """Resume from a saved round."""
        if self._lost is not None and self._given is not None:
            self._given[...], self._lost[...] = np.load(folder / FEEDBACK, allow_pickle=False)
