"""Mixes stored updates: reads blobs, applies `fedap_core.aggregation`, returns rows.

Reads every giver in order, tile by tile (twice under the rule `limit`, which compares them first), and discards the
whole result if a byte has changed since it was stored. Rows are written to files, which needs memory for one tile per
giver and receiver, whatever the size of the model; if they are small and few, they stay in memory. The weights, and
where rows go, are decided elsewhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator.record.blobs import StoredSet, opened, reading, write_exactly
from coordinator.record.model_forms import Payload
from fedap_core.aggregation import TileAccess
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.robust import Mixture, Robustness, robust_mix
from protocol.encodings import Encoding, to_wire, wire_bytes
from protocol.limits import SLICE_BYTES
from protocol.naming import Naming
from protocol.tensors import Layout


@dataclass(kw_only=True)
class Product:
    """A mixture and its rule of robustness; after mixing, `kept` holds how much of each giver counted."""

    mixture: Mixture
    rule: Robustness
    kept: FloatArray | None = None

    @staticmethod
    def plain(weights: FloatArray, layout: Layout) -> Product:
        """Return a product without any rule."""
        sizes = tuple(math.prod(spec.shape) for spec in layout.specs)
        own = (None,) * len(weights)
        mixture = Mixture(weights=weights, own=own, personal=False, sizes=sizes, trained=len(sizes))
        return Product(mixture=mixture, rule=Robustness())


class _RowWriter:
    """Writes one row to its file and computes its transfer name, if it needs one."""

    def __init__(self, handle: int, encoding: Encoding, named: bool) -> None:
        self._handle = handle
        self._encoding: Encoding = encoding
        self._naming = Naming() if named else None

    def write(self, start: int, values: Float32Array) -> None:
        wire = to_wire(values, self._encoding)
        write_exactly(self._handle, wire, wire_bytes(self._encoding, start))
        if self._naming is not None:
            self._naming.update(wire)

    @property
    def name(self) -> str | None:
        return self._naming.name() if self._naming is not None else None


def mix_files(
    product: Product, givers: Sequence[StoredSet], paths: Sequence[Path], layout: Layout, encoding: Encoding
) -> list[Payload]:
    """Write paths[i] = sum_j weights[i, j] * givers[j], limited by the rule; return the rows as payloads.

    givers have this all-float32 layout.
    """
    for folder in {path.parent for path in paths}:
        folder.mkdir(parents=True, exist_ok=True)
    named = layout.size_bytes(encoding) > SLICE_BYTES
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with ExitStack() as files:
        writers = [_RowWriter(files.enter_context(opened(path, flags)), encoding, named) for path in paths]

        def write(start: int, mixed: Float32Array) -> None:
            for row, writer in zip(mixed, writers, strict=True):
                writer.write(start, row)

        _mix(product, givers, write)
    return [
        Payload(path=path, layout=layout, encoding=encoding, transfer=writer.name)
        for path, writer in zip(paths, writers, strict=True)
    ]


def mix_in_memory(product: Product, givers: Sequence[StoredSet], layout: Layout, encoding: Encoding) -> list[Payload]:
    """Return the same rows, each small enough for one message, without writing files."""
    size = layout.size_bytes(encoding)
    rows = [np.empty(size, dtype=np.uint8) for _ in range(len(product.mixture.weights))]

    def write(start: int, mixed: Float32Array) -> None:
        for row, values in zip(rows, mixed, strict=True):
            wire = to_wire(values, encoding)
            first = wire_bytes(encoding, start)
            row.data[first : first + wire.nbytes] = wire

    _mix(product, givers, write)
    nowhere = Path()
    return [
        Payload(path=nowhere, layout=layout, encoding=encoding, transfer=None, data=row.data.toreadonly())
        for row in rows
    ]


def _mix(product: Product, givers: Sequence[StoredSet], write: TileAccess) -> None:
    with ExitStack() as files:
        readers = [files.enter_context(reading(blob)) for blob in givers]

        def read(start: int, tile: Float32Array) -> None:
            if start == 0:  # a new pass: new readers, so that the checksum covers exactly the bytes that are mixed
                readers[:] = [files.enter_context(reading(blob)) for blob in givers]
            for row, reader in zip(tile, readers, strict=True):
                reader.read(start, row)

        product.kept = robust_mix(product.mixture, product.rule, read=read, write=write)
    for blob, reader in zip(givers, readers, strict=True):
        if not reader.is_intact(blob.checksum):
            raise changed(blob)


def changed(blob: StoredSet) -> InvalidInput:
    """Return the error for a blob whose bytes have changed."""
    return InvalidInput("blob", blob.path, "the bytes that were written", "The disk has changed them.")
