"""Named arrays as one contiguous buffer, and the layout text that describes it.

A layout is agreed on by its digest, so its text is canonical: equal tensors, equal text. Sizes are computed from the
layout and checked before memory is allocated; only three dtypes exist, none of which can hold an object. This file must
not know which tensors are shared, nor how a set reaches the other side.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.contracts import Buffer
from protocol.encodings import (
    CODECS,
    ENCODINGS,
    Encoding,
    differs_downwards,
    downward,
    from_wire,
    is_blocked,
    to_wire,
    wire_bytes,
)
from protocol.encodings.halves import Float32Array
from protocol.errors import InvalidField
from protocol.limits import DIMENSIONS, LAYOUT_BYTES, SET_BYTES, SLICE_BYTES, TENSOR_NAME_CHARS, TENSORS
from protocol.naming import NAME_DIGITS, content_name

Array = NDArray[Any]
"""Any array; the layout checks which dtypes may be sent, not this type."""

DTYPES: Mapping[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8"), "int64": np.dtype("<i8")}
"""float32: model tensors; float64: statistics; int64: counts. Little-endian on the wire, whatever the machine."""

_NARROW: Mapping[str, np.dtype[Any]] = {"f16": np.dtype("<f2"), "bf16": np.dtype("<u2")}
"""The wire dtype of float32 under encodings that convert each value separately."""
_NO_NAME = "0" * NAME_DIGITS
_LINE = re.compile(r"(\S+) (float32|float64|int64) (-|(?:0|[1-9][0-9]{0,9})(?:,(?:0|[1-9][0-9]{0,9}))*)")


@dataclass(frozen=True, kw_only=True)
class WireTensor:
    """One tensor's name, dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= TENSOR_NAME_CHARS or not self.name.isprintable() or " " in self.name:
            raise InvalidField("name", self.name, f"1 to {TENSOR_NAME_CHARS} printable characters without a space")
        if self.dtype not in DTYPES:
            raise InvalidField(self.name, self.dtype, f"one of {', '.join(DTYPES)}")
        if len(self.shape) > DIMENSIONS or not all(type(n) is int and 0 <= n < 10**10 for n in self.shape):
            raise InvalidField(self.name, self.shape, f"at most {DIMENSIONS} dimensions, none negative")

    @property
    def line(self) -> str:
        return f"{self.name} {self.dtype} {','.join(map(str, self.shape)) or '-'}"

    def wire_dtype(self, encoding: Encoding) -> np.dtype[Any]:
        own = DTYPES[self.dtype]
        return _NARROW.get(encoding, own) if self.dtype == "float32" else own


class Described(Protocol):
    """A tensor as described by the owner of the model."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def floating(self) -> bool: ...


@dataclass(frozen=True)
class Layout:
    """Tensors in order; each starts at the next multiple of its item size. Equal layouts have equal digests."""

    specs: tuple[WireTensor, ...]

    def __post_init__(self) -> None:
        if len(self.specs) > TENSORS:
            raise InvalidField("layout", len(self.specs), f"at most {TENSORS} tensors")
        if len({spec.name for spec in self.specs}) != len(self.specs):
            raise InvalidField("layout", "a name twice", "every name once")
        if self.size_bytes("f32") > SET_BYTES:
            raise InvalidField("layout", self.size_bytes("f32"), f"at most {SET_BYTES} bytes")
        if len(self.text.encode()) > LAYOUT_BYTES:
            raise InvalidField("layout", len(self.text.encode()), f"a text of at most {LAYOUT_BYTES} bytes")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.text == other.text  # canonical, and much faster than tensor by tensor

    def __hash__(self) -> int:
        return hash(self.text)

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> Layout:
        """Return the layout of these arrays, in the mapping's order."""
        return Layout(tuple(WireTensor(name=n, dtype=a.dtype.name, shape=a.shape) for n, a in arrays.items()))

    @staticmethod
    def described(tensors: Iterable[Described]) -> Layout:
        """Return the layout of a model's tensors in their order; integers are sent as int64."""
        return Layout(
            tuple(
                WireTensor(name=tensor.name, dtype="float32" if tensor.floating else "int64", shape=tensor.shape)
                for tensor in tensors
            )
        )

    def views(self, flat: Array) -> dict[str, Array]:
        """Return the tensors by name as views of all their values (elements,), in order."""
        found, at = {}, 0
        for spec in self.specs:
            size = math.prod(spec.shape)
            found[spec.name] = flat[at : at + size].reshape(spec.shape)
            at += size
        return found

    @staticmethod
    def parse(text: str) -> Layout:
        """Parse a canonical layout text; InvalidField for anything else, however similar."""
        if len(text) > LAYOUT_BYTES:  # before it is used as a key or split
            raise InvalidField("layout", len(text), f"a text of at most {LAYOUT_BYTES} bytes")
        return _parse(text)

    @cached_property
    def text(self) -> str:
        return "".join(spec.line + "\n" for spec in self.specs)

    @cached_property
    def digest(self) -> str:
        """32 hex digits of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    @cached_property
    def elements(self) -> int:
        return sum(math.prod(spec.shape) for spec in self.specs)

    @cached_property
    def is_float32(self) -> bool:
        """True if every tensor is float32, so that the flat bytes are one float32 vector."""
        return all(spec.dtype == "float32" for spec in self.specs)

    def size_bytes(self, encoding: Encoding) -> int:
        return self._places[encoding][-1]

    def offsets(self, encoding: Encoding) -> tuple[int, ...]:
        """Return where each tensor starts. Under a block encoding, tensors have no separate offsets."""
        return self._places[encoding][:-1]

    @cached_property
    def _places(self) -> Mapping[str, tuple[int, ...]]:
        """Per encoding: the offset of every tensor, then the end."""
        return {encoding: self._place(encoding) for encoding in ENCODINGS}

    def _place(self, encoding: Encoding) -> tuple[int, ...]:
        if is_blocked(encoding) and self.is_float32:
            return (*(0 for _ in self.specs), wire_bytes(encoding, self.elements))
        places, end = [], 0
        for spec in self.specs:
            step = spec.wire_dtype(encoding).itemsize
            start = -(-end // step) * step
            places.append(start)
            end = start + math.prod(spec.shape) * step
        return (*places, end)


@lru_cache(maxsize=16)  # a federation uses a handful; a hostile one can fill at most 16 of the largest
def _parse(text: str) -> Layout:
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) > TENSORS:
        raise InvalidField("layout", text, f"at most {TENSORS} lines, each ended by a line feed")
    specs = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise InvalidField("layout", line, "name, dtype and shape, separated by single spaces")
        name, dtype, dims = match.groups()
        shape = () if dims == "-" else tuple(map(int, dims.split(",")))
        specs.append(WireTensor(name=name, dtype=dtype, shape=shape))
    return Layout(tuple(specs))


@dataclass(frozen=True, kw_only=True)
class TensorSet:
    """Tensors as they are sent: layout, encoding, and the wire bytes or, above one slice, the offer of them.

    `data` None means that a transfer brings (or sends) the bytes; `transfer` is then their name. A set above one slice
    that is built with its bytes computes the name itself: do that off the socket thread. `in_full`: if the set is a
    difference to other values, the full values as a separate set; never sent together with this one.
    """

    layout: Layout
    encoding: Encoding = "f32"
    data: memoryview | None
    transfer: str | None = None
    in_full: TensorSet | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InvalidField("encoding", self.encoding, f"one of {', '.join(ENCODINGS)}")
        if is_blocked(self.encoding) and not self.layout.is_float32:
            raise InvalidField("encoding", self.encoding, "f32, f16 or bf16 for tensors that are not all float32")
        if self.data is not None and self.data.nbytes != self.size_bytes:
            raise InvalidField("data", self.data.nbytes, f"the {self.size_bytes} bytes of its layout")
        if self.size_bytes <= SLICE_BYTES:
            if self.data is None or self.transfer is not None:
                raise InvalidField(
                    "transfer", self.transfer, f"bytes and no transfer, as {self.size_bytes} fit a slice"
                )
        elif self.transfer is None:
            object.__setattr__(self, "transfer", content_name(self._present()))

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire, without headers and frames."""
        return self.layout.size_bytes(self.encoding)

    @staticmethod
    def of(arrays: Mapping[str, Array], encoding: Encoding = "f32") -> TensorSet:
        """Copy the arrays into one buffer, in the mapping's order; their shapes and dtypes define the layout."""
        layout = Layout.of(arrays)
        if is_blocked(encoding) and layout.is_float32:
            flat = np.concatenate([array.reshape(-1) for array in arrays.values()])
            return TensorSet.of_flat(layout, flat, encoding)
        buffer = np.zeros(layout.size_bytes(encoding), dtype=np.uint8)
        for spec, start in zip(layout.specs, layout.offsets(encoding), strict=True):
            source = arrays[spec.name]
            halved = encoding in _NARROW and source.dtype == np.float32
            _view(buffer.data, spec, start, encoding)[...] = CODECS[encoding].encode(source) if halved else source
        return TensorSet(layout=layout, encoding=encoding, data=_bytes_of(buffer))

    @staticmethod
    def of_flat(layout: Layout, flat: Float32Array, encoding: Encoding = "f32") -> TensorSet:
        """Build a set from `flat` (elements,). Under f32 it is not copied: do not change the array until it is sent."""
        if not layout.is_float32 or flat.dtype != DTYPES["float32"] or flat.shape != (layout.elements,):
            raise InvalidField("flat", flat.shape, f"{layout.elements} float32 values of an all-float32 layout")
        return TensorSet(layout=layout, encoding=encoding, data=to_wire(flat, encoding).toreadonly())

    @staticmethod
    def staying(layout: Layout, encoding: Encoding, data: Buffer) -> TensorSet:
        """Build a set that is only read locally and never sent, so its name is not computed."""
        name = _NO_NAME if layout.size_bytes(encoding) > SLICE_BYTES else None
        return TensorSet(layout=layout, encoding=encoding, data=memoryview(data), transfer=name)

    def filled(self, data: Buffer) -> TensorSet:
        """Return the same set with the bytes that its transfer received and verified."""
        return TensorSet(layout=self.layout, encoding=self.encoding, data=memoryview(data), transfer=self.transfer)

    def flat(self) -> Float32Array:
        """Return all values as one float32 vector (elements,): a read-only view under f32, otherwise decoded."""
        if not self.layout.is_float32:
            raise InvalidField("layout", self.layout.text, "float32 tensors only")
        values = from_wire(self._present(), self.encoding, self.layout.elements)
        return values if values.flags.aligned else values.copy()

    def arrays(self) -> Mapping[str, Array]:
        """Return every tensor by name, in order; read-only views if aligned."""
        data, found = self._present(), {}
        if is_blocked(self.encoding):
            return self.layout.views(self.flat())
        for spec, start in zip(self.layout.specs, self.layout.offsets(self.encoding), strict=True):
            values = _view(data, spec, start, self.encoding)
            if self.encoding in _NARROW and spec.dtype == "float32":
                wire = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
                values = CODECS[self.encoding].decode(wire).reshape(spec.shape)
            found[spec.name] = values if values.flags.aligned else values.copy()
        return found

    def _present(self) -> memoryview:
        if self.data is None:
            raise InvalidField("data", None, f"the bytes of transfer {self.transfer}, which have not arrived")
        return self.data


def rows_differ(layout: Layout, encoding: Encoding) -> bool:
    """Whether mixed rows of this layout are sent as differences under a plan's encoding; sealed ones never are."""
    return layout.is_float32 and differs_downwards(encoding, layout.elements)


def row_encoding(layout: Layout, encoding: Encoding) -> Encoding:
    """Return how mixed rows of this layout are sent under a plan's encoding, except to members without a report."""
    return encoding if rows_differ(layout, encoding) else downward(encoding)


def names_digest(names: Sequence[str]) -> str:
    """Return 32 hex digits that are equal exactly if two parties have the same (class) names in the same order."""
    return hashlib.blake2b("\x1f".join(names).encode(), digest_size=16).hexdigest()


def _view(data: memoryview, spec: WireTensor, start: int, encoding: Encoding) -> Array:
    dtype = spec.wire_dtype(encoding)
    return np.ndarray(spec.shape, dtype=dtype, buffer=data, offset=start)


def _bytes_of(array: Array) -> memoryview:
    """Return the array's bytes as a read-only view, without a copy."""
    if array.size == 0:
        return memoryview(b"")
    return np.ascontiguousarray(array).data.cast("B").toreadonly()
