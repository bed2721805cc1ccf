"""Mixing stored updates: the one product of `fedap_core.aggregation`, fed from blobs and giving rows.

Reads every giver once, in order, tile by tile, and refuses the whole result if a byte has changed since it was stored.
Rows go into files, and memory is one tile per giver and receiver, whatever the size of the model; or, where they are
small and few, they stay in memory. Which weights these are, and where rows go, is decided elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from coordinator.blobs import StoredSet, opened, reading, wire_values, write_exactly
from coordinator.model_forms import Payload
from fedap_core.aggregation import TileAccess, mix_tiles
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from protocol.encodings import Encoding
from protocol.limits import SLICE_BYTES
from protocol.naming import Naming
from protocol.tensors import Layout


class _RowWriter:
    """One row on its way to its file, and to its name where it needs one."""

    def __init__(self, handle: int, encoding: Encoding, named: bool) -> None:
        self._handle = handle
        self._encoding: Encoding = encoding
        self._naming = Naming() if named else None

    def write(self, start: int, values: Float32Array) -> None:
        wire = wire_values(values, self._encoding)
        write_exactly(self._handle, wire, start * (wire.nbytes // values.size))
        if self._naming is not None:
            self._naming.update(wire)

    @property
    def name(self) -> str | None:
        return self._naming.name() if self._naming is not None else None


def mix_files(
    weights: FloatArray, givers: Sequence[StoredSet], paths: Sequence[Path], layout: Layout, encoding: Encoding
) -> list[Payload]:
    """Write paths[i] = sum_j weights[i, j] * givers[j]; the rows as payloads. givers have this all-float32 layout."""
    for folder in {path.parent for path in paths}:
        folder.mkdir(parents=True, exist_ok=True)
    named = layout.size_bytes(encoding) > SLICE_BYTES
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with ExitStack() as files:
        writers = [_RowWriter(files.enter_context(opened(path, flags)), encoding, named) for path in paths]

        def write(start: int, mixed: Float32Array) -> None:
            for row, writer in zip(mixed, writers, strict=True):
                writer.write(start, row)

        _mix(weights, givers, layout, write)
    return [
        Payload(path=path, layout=layout, encoding=encoding, transfer=writer.name)
        for path, writer in zip(paths, writers, strict=True)
    ]


def mix_in_memory(
    weights: FloatArray, givers: Sequence[StoredSet], layout: Layout, encoding: Encoding
) -> list[Payload]:
    """The same rows, each small enough for one message, without writing them anywhere."""
    size = layout.size_bytes(encoding)
    rows = [np.empty(size, dtype=np.uint8) for _ in range(len(weights))]

    def write(start: int, mixed: Float32Array) -> None:
        for row, values in zip(rows, mixed, strict=True):
            wire = wire_values(values, encoding)
            first = start * (wire.nbytes // values.size)
            row.data[first : first + wire.nbytes] = wire

    _mix(weights, givers, layout, write)
    nowhere = Path()
    return [
        Payload(path=nowhere, layout=layout, encoding=encoding, transfer=None, data=row.data.toreadonly())
        for row in rows
    ]


def _mix(weights: FloatArray, givers: Sequence[StoredSet], layout: Layout, write: TileAccess) -> None:
    with ExitStack() as files:
        readers = [files.enter_context(reading(blob)) for blob in givers]

        def read(start: int, tile: Float32Array) -> None:
            for row, reader in zip(tile, readers, strict=True):
                reader.read(start, row)

        mix_tiles(weights, layout.elements, read=read, write=write)
    for blob, reader in zip(givers, readers, strict=True):
        if not reader.is_intact(blob.checksum):
            raise changed(blob)


def changed(blob: StoredSet) -> InvalidInput:
    """The error for bytes that are not those which were admitted."""
    return InvalidInput("blob", blob.path, "the bytes that were written", "The disk has changed them.")
