"""Applies to models what the wire would do, for engines without one: `protocol.encodings`' conversions, in order.

Updates and mixed models are converted as the plan's encoding says, so a run without a network has the same bits as one
with it. Under f32 nothing changes. What differences depend on is part of a saved round (`FEEDBACK`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import Float32Array
from protocol.compression import COMPRESSED, compressed
from protocol.encodings import (
    DIFFERENCES,
    Encoding,
    Ranges,
    differs_downwards,
    downward,
    encode_difference,
    from_wire,
    to_wire,
    with_feedback,
)

FEEDBACK = "feedback.npy"
"""File beside saved models: what every client received, and its encoding error so far; (2, clients, values). With
differences in both directions also its latest update as it arrived; (3, clients, values)."""


class Transport:
    """Both directions for all clients of one run. variances: values of a row that cannot be negative."""

    def __init__(self, encoding: Encoding, rows: Sequence[Float32Array], variances: Ranges = ()) -> None:
        self._encoding: Encoding = encoding
        self._variances = variances
        differs = encoding in DIFFERENCES
        self._lost = np.zeros((len(rows), rows[0].size), dtype=np.float32) if differs else None
        self._given = np.zeros_like(self._lost) if self._lost is not None else None
        both = differs_downwards(encoding, rows[0].size)
        self._reported = np.zeros_like(self._lost) if self._lost is not None and both else None
        """Everybody's latest update as it arrived, if rows are differences to it."""
        self.givers: Collection[int] = ()
        """Whose updates the rows to deliver were mixed from."""
        self.kept_share: float | None = None
        """Share of the bytes of the latest updates, and of the differences sent back, that compression left; None if
        nothing is compressed."""
        self._plain = self._sent = 0

    def deliver(self, rows: Sequence[Float32Array], chosen: Sequence[int] | None = None) -> None:
        """Convert rows to what arrives at their clients. chosen: who receives a model; None: everybody."""
        if self._encoding == "f32":
            return
        way = downward(self._encoding)
        for number in range(len(rows)) if chosen is None else chosen:
            row = rows[number]
            if self._reported is not None and number in self.givers:
                wire, row[...] = encode_difference(
                    row, base=self._reported[number], encoding=self._encoding, variances=self._variances
                )
                self._count(wire)
            else:
                row[...] = from_wire(to_wire(row, way), way, row.size)
            if self._given is not None:
                self._given[number] = row

    def report(self, rows: Sequence[Float32Array], chosen: Sequence[int] | None = None) -> None:
        """Convert trained rows to what arrives at the coordinator."""
        if self._encoding == "f32":
            return
        self._plain = self._sent = 0
        for number in range(len(rows)) if chosen is None else chosen:
            row = rows[number]
            if self._lost is None or self._given is None:
                wire = to_wire(row, self._encoding)
                row[...] = from_wire(wire, self._encoding, row.size)
            else:
                wire, row[...], self._lost[number] = with_feedback(
                    row,
                    delivered=self._given[number],
                    error=self._lost[number],
                    encoding=self._encoding,
                    variances=self._variances,
                )
            if self._reported is not None:
                self._reported[number] = row
            self._count(wire)

    def _count(self, wire: memoryview) -> None:
        if self._encoding in COMPRESSED:
            self._plain += wire.nbytes
            self._sent += memoryview(compressed(wire, self._encoding)).nbytes
            self.kept_share = self._sent / max(self._plain, 1)

    def save(self, folder: Path) -> None:
        """Write what the next round depends on."""
        if self._kept:
            np.save(folder / FEEDBACK, np.stack(self._kept), allow_pickle=False)

    def load(self, folder: Path) -> None:
        """Resume from a saved round."""
        if self._kept:
            for table, saved in zip(self._kept, np.load(folder / FEEDBACK, allow_pickle=False), strict=True):
                table[...] = saved

    @property
    def _kept(self) -> list[NDArray[np.float32]]:
        return [table for table in (self._given, self._lost, self._reported) if table is not None]
