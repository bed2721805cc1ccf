"""Writes the encoded forms of the initial model and the anchor, each once, to a file that can be sent directly.

Reads safetensors files and trusts no peer: every layout of a run comes from the initial model file. A form is written
tensor by tensor, so that a model is never in memory as a whole. Knows nothing of who receives what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from coordinator.decisions.actions import BlobRef, RowRef, Source, WeightsRef
from coordinator.record.blobs import CHUNK_BYTES, opened, read_bytes, read_exactly
from coordinator.record.store import Store
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec, notes_of
from fedap_core.strategies import Phase, Strategy
from protocol.contracts import Buffer
from protocol.encodings import Encoding, downward
from protocol.limits import SLICE_BYTES
from protocol.naming import Naming
from protocol.sealed_sets import row_layout, statistics_set, update_layout
from protocol.tensors import Array, Layout, TensorSet, WireTensor


@dataclass(frozen=True, kw_only=True)
class RowDifference:
    """A mixed row as it is sent to a receiver that holds its own update of round `base`."""

    base: int
    tensors: TensorSet


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A file that begins with the bytes of a tensor set. transfer: its name if it is too large for one message.

    data: the bytes, if they are in memory and there is no file."""

    path: Path
    layout: Layout
    encoding: Encoding
    transfer: str | None
    data: memoryview | None = field(default=None, repr=False, compare=False)
    uploads: TensorSet | None = field(default=None, repr=False, compare=False)
    """The uploads that a sealed row was mixed from."""
    difference: RowDifference | None = field(default=None, repr=False, compare=False)
    """The row as a difference, if it may be sent so; a receiver with the base decodes the same values from it."""

    @property
    def size_bytes(self) -> int:
        return self.layout.size_bytes(self.encoding)

    @property
    def held_bytes(self) -> int:
        """Memory used: by the bytes if there is no file, and by the difference."""
        difference = 0 if self.difference is None else self.difference.tensors.size_bytes
        return difference + (0 if self.data is None else self.size_bytes)

    def tensor_set(self) -> TensorSet:
        """Return the tensor set for a message: with its bytes if they fit, otherwise as an offer."""
        data = None if self.transfer is not None else memoryview(self.read(0, self.size_bytes)).toreadonly()
        return TensorSet(layout=self.layout, encoding=self.encoding, data=data, transfer=self.transfer)

    def read(self, start: int, stop: int) -> Buffer:
        """Return bytes that are never written to again, so that the socket may keep them for any time."""
        return read_bytes(self.path, start, stop) if self.data is None else self.data[start:stop]


def payload_of(path: Path, layout: Layout, encoding: Encoding) -> Payload:
    """Return a file as a payload, and compute its transfer name if it needs one."""
    size = layout.size_bytes(encoding)
    naming = Naming()
    if size > SLICE_BYTES:
        with opened(path) as handle:
            for start in range(0, size, CHUNK_BYTES):
                piece = bytearray(min(CHUNK_BYTES, size - start))
                read_exactly(handle, memoryview(piece), start)
                naming.update(piece)
    return Payload(path=path, layout=layout, encoding=encoding, transfer=naming.name() if size > SLICE_BYTES else None)


def whole_layout(spec: ModelSpec) -> Layout:
    """Return the layout of all tensors of a model in model order; integers are sent as int64."""
    return Layout.described(spec.tensors)


def shared_layout(spec: ModelSpec, strategy: Strategy) -> Layout:
    """Return the layout of the tensors shared under an algorithm, in wire order."""
    return Layout.described(strategy.travelling(spec))


def floating_layout(spec: ModelSpec) -> Layout:
    """Return the layout of all tensors except counters, in wire order: those shared in warm-up rounds."""
    return Layout.described(spec.shared(()))


class ModelFile:
    """An initial model or anchor on disk: reads the description at once, tensors on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise InvalidInput("model file", path, "an existing file", "Write one with `fedap-participant init`.")
        try:
            with safe_open(path, framework="np") as file:
                metadata = file.metadata() or {}
                self.spec = ModelSpec.from_metadata(metadata, source=str(path))
                self.notes = notes_of(metadata)
                missing = {tensor.name for tensor in self.spec.tensors} - set(file.keys())
        except (SafetensorError, OSError) as error:
            raise InvalidInput("model file", path, "an intact safetensors file", str(error)) from error
        if missing:
            raise InvalidInput(str(path), f"no tensor {min(missing)}", "every tensor it describes")

    def tensor(self, spec: WireTensor) -> Array:
        """Read one tensor and check shape, dtype and that values are finite."""
        with safe_open(self.path, framework="np") as file:
            found: Array = np.asarray(file.get_tensor(spec.name))
        if found.shape != spec.shape or found.dtype.name != spec.dtype:
            raise InvalidInput(str(self.path), f"{spec.name} {found.dtype} {found.shape}", f"{spec.dtype} {spec.shape}")
        if not np.isfinite(found).all():
            raise InvalidInput(str(self.path), f"tensor {spec.name} not finite", "finite values")
        return found


class ModelForms:
    """The layouts and payloads of the model that a run sends or expects, for one strategy and one encoding.

    Used by the socket's thread, which sends, and by the computing thread, which compares updates with the weights sent.
    """

    def __init__(
        self,
        *,
        initial: ModelFile,
        anchor: ModelFile | None,
        strategy: Strategy,
        encoding: Encoding,
        store: Store,
        sealed: bool = False,
    ) -> None:
        if anchor is not None and whole_layout(anchor.spec) != whole_layout(initial.spec):
            raise InvalidInput(
                "anchor", str(anchor.path), "the tensors of the initial model", "Same model, same classes."
            )
        self._initial = initial
        self._anchor = anchor
        self._store = store
        self.encoding: Encoding = downward(encoding)
        """How models are sent."""
        self.upward: Encoding = encoding
        """How updates are expected, and differences to them sent."""
        self.sealed = sealed
        self.whole = whole_layout(initial.spec)
        self._shared = shared_layout(initial.spec, strategy)
        self._beside = frozenset(one.name for one in strategy.beside(initial.spec))
        self._all_floating = floating_layout(initial.spec)
        self._made: dict[str, Payload] = {}
        self._making = threading.RLock()
        self._rows: dict[RowRef, Payload] = {}

    def shared(self, phase: Phase | None) -> Layout:
        """Return the layout shared in a round of this phase: warm-up shares batch norm too."""
        return self._all_floating if phase is Phase.WARMUP else self._shared

    def updates(self, phase: Phase | None) -> Layout:
        """Return the layout of an update of this phase: the shared tensors or, if sealed, as many padded words."""
        shared = self.shared(phase)
        return update_layout(shared.elements) if self.sealed else shared

    def rows(self, phase: Phase | None) -> Layout:
        """Return the layout of a mixed row of this phase."""
        shared = self.shared(phase)
        return row_layout(shared.elements) if self.sealed else shared

    def peers(self, refs: Sequence[BlobRef]) -> Payload | None:
        """Return the sealed statistics of members that are still stored intact; None if there are none."""
        stored = [(ref.member, self._store.blob(ref)) for ref in refs if not self._store.fault_of(ref)]
        boxes = [
            (name, one.data if one.data is not None else read_bytes(one.path, 0, one.size_bytes))
            for name, one in stored
        ]
        if not boxes:
            return None
        made = statistics_set(boxes)
        return Payload(path=Path(), layout=made.layout, encoding="f32", transfer=made.transfer, data=made.data)

    def initial(self) -> Payload:
        """Return the whole initial model, never rounded to the transport encoding because it is sent only once."""
        return self._form("initial-whole", self.whole, "f32", self._initial.tensor)

    @property
    def held_bytes(self) -> int:
        """Memory used by rows."""
        return sum(row.held_bytes for row in self._rows.values())

    def add_row(self, ref: RowRef, payload: Payload) -> None:
        """Add a row that was mixed and can be sent."""
        self._rows[ref] = payload

    def forget_rows(self, kept: frozenset[RowRef]) -> None:
        """Forget all rows but these."""
        self._rows = {ref: row for ref, row in self._rows.items() if ref in kept}

    def row(self, ref: RowRef | None) -> Payload:
        """Return a mixed row; InvalidInput if it does not exist (any more)."""
        if ref is None or ref not in self._rows:
            raise InvalidInput("row", ref, "one that has been mixed")
        return self._rows[ref]

    def weights(self, ref: WeightsRef, phase: Phase | None) -> Payload:
        """Return the tensors of a `train` or `finish` of this phase."""
        if ref.source is Source.ROW:
            return self.row(ref.row)
        layout, suffix = self.shared(phase), "all" if phase is Phase.WARMUP else "shared"
        if ref.source is Source.INITIAL:
            return self._form(f"initial-{suffix}", layout, self.encoding, self._initial.tensor)
        return self._form(f"{_anchor_name(ref)}-{suffix}", layout, self.encoding, self._anchor_tensor(ref))

    def whole_anchor(self, ref: WeightsRef) -> Payload:
        """Return the anchor with all its tensors; counters, which are never shared, come from the initial model. In a
        sealed run, an anchor made by warm-up is the mixed row itself."""
        if self.sealed and ref.row is not None:
            return self.row(ref.row)
        return self._form(f"{_anchor_name(ref)}-whole", self.whole, "f32", self._anchor_tensor(ref))

    def _anchor_tensor(self, ref: WeightsRef) -> Callable[[WireTensor], Array]:
        if ref.row is None:
            if self._anchor is None:
                raise InvalidInput("anchor", "none", "an anchor file")
            return self._anchor.tensor
        row = self.row(ref.row)
        mixed = TensorSet.staying(row.layout, row.encoding, row.read(0, row.size_bytes)).arrays()

        def tensor(spec: WireTensor) -> Array:
            return mixed[spec.name] if spec.name in mixed else self._initial.tensor(spec)

        return tensor

    def _form(self, name: str, layout: Layout, encoding: Encoding, tensor: Callable[[WireTensor], Array]) -> Payload:
        with self._making:
            if name not in self._made:
                path = self._store.fixed_path(name)
                _write_form(path, layout, encoding, self._with_zeros(tensor))
                self._made[name] = payload_of(path, layout, encoding)
            return self._made[name]

    def _with_zeros(self, tensor: Callable[[WireTensor], Array]) -> Callable[[WireTensor], Array]:
        """Use zeros for tensors sent beside the weights, which no model file has."""
        return lambda spec: np.zeros(spec.shape, spec.dtype) if spec.name in self._beside else tensor(spec)


def _write_form(path: Path, layout: Layout, encoding: Encoding, tensor: Callable[[WireTensor], Array]) -> None:
    with path.open("wb") as file:
        if encoding != "f32":  # one buffer suffices: converted tensors are small
            made = TensorSet.of({spec.name: tensor(spec) for spec in layout.specs}, encoding).data
            file.write(made if made is not None else b"")
            return
        for spec, offset in zip(layout.specs, layout.offsets(encoding), strict=True):
            file.seek(offset)
            file.write(np.ascontiguousarray(tensor(spec)).data.cast("B"))
        file.truncate(layout.size_bytes(encoding))


def _anchor_name(ref: WeightsRef) -> str:
    return "anchor" if ref.row is None else f"anchor-{ref.row.round_no}-{ref.row.member}"
