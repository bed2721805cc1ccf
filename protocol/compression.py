"""zstd over the bytes of a tensor set: which encodings it is worth it for, and how little a receiver believes of it.

`int8` fills its bytes and loses nothing; `f32` loses 8 % and is for fast lines, where compressing takes longer than
sending. A body that is shorter than its set is one zstd frame of it. The frame must announce exactly the set's size,
which the layout gives, before anything is reserved for it; so a small body cannot become a large one. Must not know
messages.
"""

from __future__ import annotations

import zstandard

from protocol.contracts import Buffer
from protocol.encodings import Encoding
from protocol.errors import InvalidField
from protocol.limits import SLICE_BYTES

COMPRESSED: frozenset[Encoding] = frozenset({"f16", "bf16", "int4", "topk"})
"""Encodings whose bytes are sent compressed."""

_LEVEL = 3
"""Of 1, 3 and 9 the middle one: 1 saves 1 % less, 9 saves 1 % more and takes several times as long."""


def compressed(data: memoryview, encoding: Encoding) -> Buffer:
    """The bytes of a set as they are sent: a zstd frame where that is shorter, else themselves."""
    if encoding not in COMPRESSED:
        return data
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return frame if len(frame) < data.nbytes else data


def decompressed(body: Buffer, encoding: Encoding, size_bytes: int) -> memoryview:
    """Back from `compressed`, read-only; InvalidField for whatever is not exactly one frame of so many bytes."""
    wire = memoryview(body)
    if encoding not in COMPRESSED or wire.nbytes >= size_bytes:
        return wire.toreadonly()
    try:
        header = zstandard.get_frame_parameters(wire)
        if header.content_size != size_bytes or header.window_size > SLICE_BYTES:
            got = f"a frame of {header.content_size} bytes with a window of {header.window_size}"
            raise InvalidField("body", got, f"a zstd frame of {size_bytes} bytes")
        found = zstandard.ZstdDecompressor().decompress(wire, allow_extra_data=False)
    except zstandard.ZstdError as fault:
        raise InvalidField("body", str(fault)[:80], f"a zstd frame of {size_bytes} bytes") from None
    return memoryview(found).toreadonly()
