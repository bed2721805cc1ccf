"""Compresses the bytes of a tensor set with zstd: for which encodings, and how a receiver checks the frame.

`int8` does not compress; `f32` shrinks by only 8 % and is for fast lines, where compressing takes longer than sending.
A body that is shorter than its set is one zstd frame. The frame must announce exactly the size that the layout gives
before any memory is reserved, so a small body cannot expand into a large one. Must not know messages.
"""

from __future__ import annotations

import zstandard

from protocol.contracts import Buffer
from protocol.encodings import Encoding
from protocol.errors import InvalidField
from protocol.limits import SLICE_BYTES

COMPRESSED: frozenset[Encoding] = frozenset({"f16", "bf16", "int4", "topk", "coarse"})
"""Encodings whose bytes are sent compressed."""

_LEVEL = 3
"""zstd level: 1 saves 1 % less; 9 saves 1 % more but takes several times as long."""


def compressed(data: memoryview, encoding: Encoding) -> Buffer:
    """Return the bytes of a set as they are sent: a zstd frame if that is shorter, otherwise unchanged."""
    if encoding not in COMPRESSED:
        return data
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return frame if len(frame) < data.nbytes else data


def decompressed(body: Buffer, encoding: Encoding, size_bytes: int) -> memoryview:
    """Undo `compressed`, read-only; InvalidField if the body is not exactly one frame of `size_bytes`."""
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
