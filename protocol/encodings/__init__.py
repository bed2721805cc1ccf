"""Encodings of float32 values on the wire: what each costs, and in which direction it is used.

| encoding | bytes per value | participant to coordinator | coordinator to participant |
|---|---|---|---|
| f32 | 4 | the values | the values |
| f16, bf16 | 2 | the values | the values |
| int8 | 1.03 | the difference to what was delivered | the values |
| int4 | 0.53 | the difference to what was delivered | the values as int8 |
| topk | 0.19 | the difference to what was delivered | the values as int8 |
| coarse | 0.51, about 0.25 after zstd | the difference to what was delivered | the difference to the latest update |

All but f32 are lossy, so their results are not bit-identical to those of f32. An encoding is a short file here and one
line in `CODECS`. This file must not know layouts or messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from protocol.contracts import Buffer
from protocol.encodings import blocks, coarse, halves, largest
from protocol.encodings.halves import Float32Array
from protocol.errors import InvalidField
from protocol.limits import SLICE_BYTES

Encoding = Literal["f32", "f16", "bf16", "int8", "int4", "topk", "coarse"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)

DIFFERENCES: frozenset[Encoding] = frozenset({"int8", "int4", "topk", "coarse"})
"""From participant to coordinator, these encode the difference to the delivered weights."""

BOTH_WAYS: frozenset[Encoding] = frozenset({"coarse"})
"""Those of DIFFERENCES under which a mixed row is sent as the difference to its receiver's latest update, if there is
one (`differs_downwards`)."""

ENCODING_HELP = (
    "How weights are encoded: f32; f16 or bf16 (half the bytes, rounded); int8 (a quarter), int4 or topk (a fifth and"
    " less): updates as differences whose rounding errors are carried over to the next round; coarse (a tenth): models"
    " as differences, too."
)

_Wire = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class BlockCodec:
    """Codec of an encoding. values, size_bytes: of one block. encode: whole blocks of flat values to bytes; decode:
    (blocks, size_bytes) bytes to flat values."""

    values: int
    size_bytes: int
    encode: Callable[[Float32Array], _Wire]
    decode: Callable[[NDArray[np.uint8]], Float32Array]


CODECS: Mapping[Encoding, BlockCodec] = {
    "f32": BlockCodec(
        values=1, size_bytes=4, encode=lambda values: values, decode=lambda wire: wire.view("<f4").ravel()
    ),
    "f16": BlockCodec(
        values=1, size_bytes=2, encode=halves.narrow, decode=lambda wire: halves.widen(wire.view("<f2").ravel())
    ),
    "bf16": BlockCodec(
        values=1,
        size_bytes=2,
        encode=halves.upper_halves,
        decode=lambda wire: halves.from_upper_halves(wire.view("<u2").ravel()),
    ),
    "int8": BlockCodec(
        values=blocks.BLOCK, size_bytes=blocks.INT8_BYTES, encode=blocks.to_int8, decode=blocks.from_int8
    ),
    "int4": BlockCodec(
        values=blocks.BLOCK, size_bytes=blocks.INT4_BYTES, encode=blocks.to_int4, decode=blocks.from_int4
    ),
    "topk": BlockCodec(
        values=largest.BLOCK, size_bytes=largest.BLOCK_BYTES, encode=largest.to_largest, decode=largest.from_largest
    ),
    "coarse": BlockCodec(
        values=coarse.BLOCK, size_bytes=coarse.BLOCK_BYTES, encode=coarse.to_coarse, decode=coarse.from_coarse
    ),
}

LARGEST_BLOCK = 1024
"""A multiple of every codec's block size: an offset that is a multiple of this starts a block."""


def encoding_of(name: object) -> Encoding:
    """Return the encoding of this name; InvalidField if there is none."""
    for known in ENCODINGS:
        if name == known:
            return known
    raise InvalidField("encoding", name, f"one of {', '.join(ENCODINGS)}")


def is_blocked(encoding: Encoding) -> bool:
    """Whether values are encoded in blocks, so that a single one cannot be read alone."""
    return CODECS[encoding].values > 1


def downward(encoding: Encoding) -> Encoding:
    """Return how the coordinator sends models as values under a plan's encoding: only differences may be coarser than
    int8."""
    return "int8" if encoding in DIFFERENCES else encoding


def differs_downwards(encoding: Encoding, elements: int) -> bool:
    """Whether mixed rows of this many values are sent as differences under a plan's encoding: only if they fit one
    message, because slices are not compressed."""
    return encoding in BOTH_WAYS and wire_bytes("f32", elements) <= SLICE_BYTES


def stored(encoding: Encoding) -> Encoding:
    """Return how the coordinator stores updates under a plan's encoding, which is also the largest form of an update:
    a difference is stored, and sent again, in full."""
    return "f32" if encoding in DIFFERENCES else encoding


def wire_bytes(encoding: Encoding, elements: int) -> int:
    """Return the bytes of this many values."""
    codec = CODECS[encoding]
    return -(-elements // codec.values) * codec.size_bytes


def to_wire(values: Float32Array, encoding: Encoding) -> memoryview:
    """Encode flat values; a view of them under f32. InvalidField if f16 cannot represent one."""
    codec = CODECS[encoding]
    short = -values.size % codec.values
    if short:
        values = np.concatenate([values, np.zeros(short, dtype=np.float32)])
    wire = np.ascontiguousarray(codec.encode(values))
    return wire.data.cast("B") if wire.size else memoryview(b"")


def from_wire(data: Buffer, encoding: Encoding, elements: int) -> Float32Array:
    """Undo `to_wire`, (elements,): a view under f32. Overflow if f16 values include an infinity."""
    codec = CODECS[encoding]
    wire = np.frombuffer(data, dtype=np.uint8)
    if codec.values > 1:
        wire = wire.reshape(-1, codec.size_bytes)
    return codec.decode(wire)[:elements]


Ranges = Sequence[tuple[int, int]]
"""(start, stop) of some of the values."""


def with_feedback(
    values: Float32Array,
    *,
    delivered: Float32Array,
    error: Float32Array,
    encoding: Encoding,
    variances: Ranges = (),
) -> tuple[memoryview, Float32Array, Float32Array]:
    """Encode the difference to the delivered weights with error feedback.

    error: rounding error of earlier rounds; it is added to the difference, so that nothing is lost for good. variances:
    values that are measured anew in every round and are never negative. Their errors are not carried over, because the
    next difference has them again, and added up they would pass the measured value. Returns (bytes, the model that the
    receiver decodes, the new error); all arrays are (elements,).
    """
    wanted = (values - delivered) + error
    for start, stop in variances:
        wanted[start:stop] = values[start:stop] - delivered[start:stop]
    wire, decoded = _encoded(wanted, delivered, encoding, variances)
    lost = wanted - decoded
    for start, stop in variances:
        lost[start:stop] = 0.0
    return wire, delivered + decoded, lost


def encode_difference(
    values: Float32Array, *, base: Float32Array, encoding: Encoding, variances: Ranges = ()
) -> tuple[memoryview, Float32Array]:
    """Encode the difference to a base that the receiver holds; return its bytes and the values the receiver decodes.

    All arrays are (elements,). variances: values that are never negative. The rounding error is not carried over: the
    next row is mixed from updates that were trained from the decoded values.
    """
    wire, decoded = _encoded(values - base, base, encoding, variances)
    return wire, base + decoded


def _encoded(
    wanted: Float32Array, base: Float32Array, encoding: Encoding, variances: Ranges
) -> tuple[memoryview, Float32Array]:
    """Encode a difference; return its bytes and what the receiver decodes. A variance that rounding would make negative
    goes half of the way, and the rest in the rounds that follow."""
    first = min((start for start, _ in variances), default=wanted.size) // LARGEST_BLOCK * LARGEST_BLOCK
    wire = to_wire(wanted, encoding)
    decoded = from_wire(wire, encoding, wanted.size)
    is_variance = np.zeros(wanted.size - first, dtype=np.bool_)
    for start, stop in variances:
        is_variance[start - first : stop - first] = True
    rest = wanted[first:]
    while is_variance.any():  # half of the way is rounded to the whole at most, so there is hardly a second pass
        falling = is_variance & (decoded[first:] < 0.0) & (base[first:] + decoded[first:] < 0.0)
        if not falling.any():
            break
        rest = np.where(falling, np.maximum(rest, -np.maximum(base[first:], 0.0)) / 2, rest)
        end = to_wire(rest, encoding)
        wire = memoryview(bytes(wire[: wire_bytes(encoding, first)]) + bytes(end))
        decoded = np.concatenate([decoded[:first], from_wire(end, encoding, rest.size)])
    return wire, decoded
