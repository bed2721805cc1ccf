"""How tensor sets are attached to a header: inside it, in a separate frame, or announced by it and sent by a transfer.

Only the size decides, on both sides, so there is one form for each set. This file must not know which message a set
belongs to, nor how a transfer proceeds.
"""

from __future__ import annotations

from protocol.compression import compressed, decompressed
from protocol.contracts import Buffer, Contract, Frames
from protocol.encodings import encoding_of
from protocol.errors import InvalidField
from protocol.limits import EMBEDDED_BYTES, SLICE_BYTES
from protocol.naming import NAME_DIGITS
from protocol.tensors import Layout, TensorSet

_HEX = frozenset("0123456789abcdef")


class Tensors(Contract):
    """A tensor set: a map of `layout` (text), `encoding` and `body`.

    `body` is binary up to 64 KiB; nil up to one slice, with the bytes in the next frame; above that it is text, the
    name under which the bytes are offered. Bytes sent with the message may be compressed (`compression`).
    """

    def __init__(self, *, optional: bool) -> None:
        expected = "nil or a tensor set" if optional else "a tensor set"
        super().__init__(expected, lambda v: isinstance(v, TensorSet) or (optional and v is None))

    def write(self, value: object, frames: list[Buffer]) -> object:
        if not isinstance(value, TensorSet):
            return value
        body: object = value.transfer
        if value.data is not None and value.transfer is None:
            data = compressed(value.data, value.encoding)
            if value.size_bytes <= EMBEDDED_BYTES:
                body = bytes(data)
            else:
                frames.append(data)
        return {"layout": value.layout.text, "encoding": value.encoding, "body": body}

    def read(self, wire: object, frames: Frames, newer: bool) -> object:
        if not isinstance(wire, dict):
            return wire
        if not wire.keys() >= {"layout", "encoding", "body"} or (len(wire) > 3 and not newer):
            raise InvalidField("tensors", tuple(wire), "the fields layout, encoding and body")
        layout = _layout(wire["layout"])
        encoding = encoding_of(wire["encoding"])
        body, size = wire["body"], layout.size_bytes(encoding)
        if size > SLICE_BYTES:
            if type(body) is not str or len(body) != NAME_DIGITS or not _HEX.issuperset(body):
                raise InvalidField("body", body, f"the name under which {size} bytes are offered")
            return TensorSet(layout=layout, encoding=encoding, data=None, transfer=body)
        if size > EMBEDDED_BYTES:
            if body is not None:
                raise InvalidField("body", body, f"nil, and {size} bytes in the next frame")
            body = frames.take("body")
        if not isinstance(body, bytes | bytearray | memoryview):
            raise InvalidField("body", body, f"{size} bytes")
        return TensorSet(layout=layout, encoding=encoding, data=decompressed(body, encoding, size))


class RawFrame(Contract):
    """Bytes that are the next frame; the header holds nil in their place."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"a frame of 1 to {most} bytes",
            lambda v: isinstance(v, memoryview) and v.format == "B" and 0 < v.nbytes <= most,
        )

    def write(self, value: object, frames: list[Buffer]) -> object:
        if isinstance(value, memoryview):
            frames.append(value)
        return None

    def read(self, wire: object, frames: Frames, newer: bool) -> object:  # noqa: ARG002 - the contract's signature
        if wire is not None:
            raise InvalidField("frame", wire, "nil, and the bytes in the next frame")
        return memoryview(frames.take("frame")).toreadonly()


def _layout(wire: object) -> Layout:
    if type(wire) is not str:
        raise InvalidField("layout", wire, "a layout text")
    return Layout.parse(wire)
