"""Mixes stored updates: reads blobs, applies `fedap_core.aggregation`, returns rows.

Reads every giver in order, tile by tile (twice under the rule `limit`, which compares them first; a receiver's own
update once more if its row is sent as the difference to it), and discards the whole result if a byte has changed since
it was stored. Rows are written to files, which needs memory for one tile per giver and receiver, whatever the size of
the model; if they are small and few, they stay in memory. The weights, and where rows go, are decided elsewhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator.decisions.actions import Aggregate
from coordinator.record.blobs import FloatReader, OpenFiles, StoredSet, opened, write_exactly
from coordinator.record.model_forms import Payload, RowDifference
from fedap_core.aggregation import TileAccess
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.robust import Mixture, Robustness, robust_mix
from protocol.encodings import Encoding, Ranges, encode_difference, to_wire, wire_bytes
from protocol.limits import SLICE_BYTES
from protocol.naming import Naming
from protocol.tensors import Layout, TensorSet, rows_differ


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


@dataclass(frozen=True, kw_only=True)
class OwnUpdate:
    """A receiver's own update among those that are mixed."""

    round_no: int
    stored: StoredSet


@dataclass(frozen=True, kw_only=True)
class RowForms:
    """How rows of a layout are stored. own: for each row, its receiver's update to which it is sent as a difference.

    A row without one is stored in `encoding`, as it is sent. A row with one takes the values that its receiver decodes
    from the difference, encoded as `difference`; it is stored as f32 beside that difference. variances: (start, stop)
    ranges of values that cannot be negative.
    """

    layout: Layout
    encoding: Encoding
    difference: Encoding
    own: Sequence[OwnUpdate | None]
    variances: Ranges = ()

    @staticmethod
    def of(
        action: Aggregate,
        givers: Sequence[StoredSet],
        layout: Layout,
        *,
        encoding: Encoding,
        upward: Encoding,
        variances: Ranges,
    ) -> RowForms:
        """Return differences if the plan asks for them, for receivers that are among the givers."""
        known: dict[str, OwnUpdate] = {}
        if rows_differ(layout, upward):
            for ref, stored in zip(action.givers, givers, strict=True):
                known[ref.member] = OwnUpdate(round_no=ref.round_no, stored=stored)
        own = [known.get(row.member) for row in action.receivers]
        return RowForms(layout=layout, encoding=encoding, difference=upward, own=own, variances=variances)

    @staticmethod
    def values(layout: Layout, encoding: Encoding, count: int) -> RowForms:
        """Return the forms of rows none of which is a difference."""
        return RowForms(layout=layout, encoding=encoding, difference=encoding, own=(None,) * count)

    def encoding_of(self, own: OwnUpdate | None) -> Encoding:
        """Return how a row is stored, given its receiver's update."""
        return self.encoding if own is None else "f32"

    @property
    def row_sizes(self) -> list[int]:
        """Bytes of each row as it is stored."""
        return [self.layout.size_bytes(self.encoding_of(own)) for own in self.own]

    @property
    def held_bytes(self) -> int:
        """Memory that all rows and their differences need together."""
        differences = sum(own is not None for own in self.own) * self.layout.size_bytes(self.difference)
        return sum(self.row_sizes) + differences


class _Difference:
    """Encodes one row as the difference to its receiver's update, tile by tile."""

    def __init__(self, reader: FloatReader, base: int, forms: RowForms) -> None:
        self._reader = reader
        self._base = base
        self._layout = forms.layout
        self._encoding: Encoding = forms.difference
        self._variances = forms.variances
        self._wire = np.empty(forms.layout.size_bytes(forms.difference), dtype=np.uint8)

    def encode(self, start: int, values: Float32Array) -> Float32Array:
        """Encode these values and return those that the receiver will decode."""
        base = self._reader.block(start, values.size)
        stop = start + values.size
        here = [(max(one, start) - start, min(end, stop) - start) for one, end in self._variances]
        variances = [(one, end) for one, end in here if one < end]
        wire, arrived = encode_difference(values, base=base, encoding=self._encoding, variances=variances)
        first = wire_bytes(self._encoding, start)
        self._wire.data[first : first + wire.nbytes] = wire
        return arrived

    def finished(self) -> RowDifference:
        wire = self._wire.data.toreadonly()
        return RowDifference(
            base=self._base, tensors=TensorSet(layout=self._layout, encoding=self._encoding, data=wire)
        )


def _differences(forms: RowForms, files: OpenFiles) -> list[_Difference | None]:
    return [
        None if own is None else _Difference(FloatReader(own.stored, files), own.round_no, forms) for own in forms.own
    ]


class _RowWriter:
    """Writes one row to its file and computes its transfer name, if it needs one."""

    def __init__(self, path: Path, files: OpenFiles, encoding: Encoding, named: bool) -> None:
        self._path = path
        self._files = files
        self._encoding: Encoding = encoding
        self._naming = Naming() if named else None

    def write(self, start: int, values: Float32Array) -> None:
        wire = to_wire(values, self._encoding)
        with self._files.opened(self._path, os.O_WRONLY) as handle:
            write_exactly(handle, wire, wire_bytes(self._encoding, start))
        if self._naming is not None:
            self._naming.update(wire)

    @property
    def name(self) -> str | None:
        return self._naming.name() if self._naming is not None else None


def mix_files(product: Product, givers: Sequence[StoredSet], paths: Sequence[Path], forms: RowForms) -> list[Payload]:
    """Write paths[i] = sum_j weights[i, j] * givers[j], limited by the rule; return the rows as payloads.

    givers have the rows' all-float32 layout.
    """
    create_rows(paths)
    encodings = [forms.encoding_of(own) for own in forms.own]
    with OpenFiles() as files:
        differences = _differences(forms, files)
        writers = [
            _RowWriter(path, files, encoding, named=forms.layout.size_bytes(encoding) > SLICE_BYTES)
            for path, encoding in zip(paths, encodings, strict=True)
        ]

        def write(start: int, mixed: Float32Array) -> None:
            for row, writer, difference in zip(mixed, writers, differences, strict=True):
                writer.write(start, row if difference is None else difference.encode(start, row))

        _mix(product, givers, files, write)
    finished = [None if one is None else one.finished() for one in differences]
    return [
        Payload(path=path, layout=forms.layout, encoding=encoding, transfer=writer.name, difference=difference)
        for path, writer, encoding, difference in zip(paths, writers, encodings, finished, strict=True)
    ]


def create_rows(paths: Sequence[Path]) -> None:
    """Create an empty file for every row, and its folder."""
    for folder in {path.parent for path in paths}:
        folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            continue


def mix_in_memory(product: Product, givers: Sequence[StoredSet], forms: RowForms) -> list[Payload]:
    """Return the same rows, each small enough for one message, without writing files."""
    encodings = [forms.encoding_of(own) for own in forms.own]
    rows = [np.empty(forms.layout.size_bytes(encoding), dtype=np.uint8) for encoding in encodings]
    with OpenFiles() as files:
        differences = _differences(forms, files)

        def write(start: int, mixed: Float32Array) -> None:
            for row, encoding, values, difference in zip(rows, encodings, mixed, differences, strict=True):
                wire = to_wire(values if difference is None else difference.encode(start, values), encoding)
                first = wire_bytes(encoding, start)
                row.data[first : first + wire.nbytes] = wire

        _mix(product, givers, files, write)
    nowhere, finished = Path(), [None if one is None else one.finished() for one in differences]
    return [
        Payload(
            path=nowhere,
            layout=forms.layout,
            encoding=encoding,
            transfer=None,
            data=row.data.toreadonly(),
            difference=difference,
        )
        for row, encoding, difference in zip(rows, encodings, finished, strict=True)
    ]


def _mix(product: Product, givers: Sequence[StoredSet], files: OpenFiles, write: TileAccess) -> None:
    readers: list[FloatReader] = []

    def read(start: int, tile: Float32Array) -> None:
        if start == 0:  # a new pass: new readers, so that the checksum covers exactly the bytes that are mixed
            readers[:] = [FloatReader(blob, files) for blob in givers]
        for row, reader in zip(tile, readers, strict=True):
            reader.read(start, row)

    product.kept = robust_mix(product.mixture, product.rule, read=read, write=write)
    for blob, reader in zip(givers, readers, strict=False):  # no readers if there are no values
        if not reader.is_intact(blob.checksum):
            raise changed(blob)


def changed(blob: StoredSet) -> InvalidInput:
    """Return the error for a blob whose bytes have changed."""
    return InvalidInput("blob", blob.path, "the bytes that were written", "The disk has changed them.")
