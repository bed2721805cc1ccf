"""The file format of a tensor set: its wire bytes first, so that any part can be read at its offset, then a footer.

The footer holds layout, encoding and the XXH3-64 of the bytes. A file without a complete footer was never finished and
is refused. The checksum detects bytes that the disk changed; during transfer, the payload's name protects them.
Files are read with preadv into buffers of the caller, never mapped: touched pages of a mapping would count as memory in
use.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from protocol.contracts import Buffer
from protocol.encodings import Encoding, encoding_of, from_wire, wire_bytes
from protocol.errors import InvalidField
from protocol.tensors import Layout

_END = struct.Struct("<I8s")
"""Length of the footer's JSON, and the mark that ends a finished file."""
_MARK = b"fedapset"
CHUNK_BYTES = 1 << 20
"""Bytes per read when streaming a file: large enough to be fast, small compared with a model."""


@dataclass(frozen=True, kw_only=True)
class StoredSet:
    """A finished file as described by its footer. data: the same wire bytes, if they are still in memory."""

    path: Path
    layout: Layout
    encoding: Encoding
    checksum: int
    data: memoryview | None = field(default=None, repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """Number of wire bytes, with which the file begins."""
        return self.layout.size_bytes(self.encoding)


def checksum_of(data: Buffer) -> int:
    """Return the checksum that a footer stores for these bytes."""
    return xxhash.xxh3_64_intdigest(data)


def finish(path: Path, layout: Layout, encoding: Encoding, checksum: int) -> StoredSet:
    """Write the footer after the wire bytes at the start of a file, and truncate the rest. The caller makes it
    durable."""
    wire_bytes, footer = layout.size_bytes(encoding), _footer(layout, encoding, checksum)
    with opened(path, os.O_RDWR) as handle:
        size = os.fstat(handle).st_size
        if size < wire_bytes:
            raise InvalidInput(path.name, f"{size} bytes", f"the {wire_bytes} of its layout")
        write_exactly(handle, footer, wire_bytes)
        os.ftruncate(handle, wire_bytes + len(footer))
    return StoredSet(path=path, layout=layout, encoding=encoding, checksum=checksum)


def write_finished(handle: int, data: memoryview, layout: Layout, encoding: Encoding, checksum: int) -> None:
    """Replace the content of an open file with wire bytes and footer. The caller makes it durable."""
    footer = _footer(layout, encoding, checksum)
    size = data.nbytes + len(footer)
    done = os.pwritev(handle, [data, footer], 0)
    if done < size:
        write_exactly(handle, b"".join((data, footer))[done:], done)
    if os.fstat(handle).st_size != size:
        os.ftruncate(handle, size)


def _footer(layout: Layout, encoding: Encoding, checksum: int) -> bytes:
    text = f'{_described(layout.text, encoding)}, "xxh3": {checksum}}}'.encode()
    return text + _END.pack(len(text), _MARK)


@lru_cache(maxsize=16)  # equal for all reports of a round
def _described(text: str, encoding: Encoding) -> str:
    """Return the footer's JSON up to the checksum."""
    return json.dumps({"layout": text, "encoding": encoding}).removesuffix("}")


def force(path: Path, flags: int = os.O_RDONLY) -> None:
    """fsync a file's bytes or, with O_DIRECTORY, a folder's entries, so that they survive a power loss."""
    with opened(path, flags) as handle:
        os.fsync(handle)


def describe(path: Path) -> StoredSet:
    """Read the footer of a finished file; InvalidInput if it is not one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _END.size, 0))
            length, mark = _END.unpack(file.read(_END.size))
            if mark != _MARK or length > size - _END.size:
                raise ValueError("no footer")
            file.seek(size - _END.size - length)
            fields = json.loads(file.read(length))
        found = StoredSet(
            path=path,
            layout=Layout.parse(fields["layout"]),
            encoding=encoding_of(fields["encoding"]),
            checksum=fields["xxh3"],
        )
        if found.size_bytes != size - _END.size - length:
            raise ValueError(f"{size - _END.size - length} bytes for a layout of {found.size_bytes}")
    except (OSError, ValueError, KeyError, TypeError, struct.error, InvalidField) as error:
        raise InvalidInput("blob", path, "a finished file", str(error)) from error
    return found


def fault_of(path: Path) -> str:
    """Read a whole finished file and return what is wrong with it; empty if nothing. OSError if the disk fails."""
    if not path.is_file():
        return "is missing"
    try:
        found = describe(path)
        passed = xxhash.xxh3_64()
        with opened(path) as handle:
            for start in range(0, found.size_bytes, CHUNK_BYTES):
                piece = bytearray(min(CHUNK_BYTES, found.size_bytes - start))
                read_exactly(handle, memoryview(piece), start)
                passed.update(piece)
    except InvalidInput as error:
        return f"is cut off or damaged ({error.fix or error.got})"
    return "" if passed.intdigest() == found.checksum else "is damaged: its bytes have changed since they were written"


@contextmanager
def opened(path: Path | str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file descriptor for the duration of a `with` block."""
    handle = os.open(path, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def read_exactly(handle: int, into: memoryview, offset: int) -> None:
    """Fill `into` from `offset` of the file; InvalidInput if the file ends before."""
    view = into.cast("B")
    while view.nbytes:
        done = os.preadv(handle, [view], offset)
        if done == 0:
            raise InvalidInput("blob", f"an end of file at {offset}", f"{view.nbytes} more bytes")
        view, offset = view[done:], offset + done


def write_exactly(handle: int, data: Buffer, offset: int) -> None:
    """Write all of `data` at `offset`."""
    view = memoryview(data).cast("B")
    while view.nbytes:
        done = os.pwrite(handle, view, offset)
        view, offset = view[done:], offset + done


def read_bytes(path: Path, start: int, stop: int) -> bytearray:
    """Return bytes [start, stop) of a file in a new buffer that nothing else writes to."""
    buffer = bytearray(stop - start)
    with opened(path) as handle:
        read_exactly(handle, memoryview(buffer), start)
    return buffer


class OpenFiles:
    """Opens files that are read or written piece by piece: the first MOST stay open until the end of a `with` block,
    each of the others is opened for every piece. So a mix needs no more descriptors however many members there are."""

    MOST = 64

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, int], int] = {}

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_error: object) -> None:
        for handle in self._kept.values():
            os.close(handle)

    @contextmanager
    def opened(self, path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Yield a descriptor of a file; its place in the file means nothing."""
        kept = self._kept.get((path, flags))
        if kept is None and len(self._kept) < self.MOST:
            kept = self._kept[path, flags] = os.open(path, flags)
        if kept is not None:
            yield kept
            return
        with opened(path, flags) as handle:
            yield handle


class Held(Protocol):
    """Wire bytes in memory or, without `data`, at the start of a file."""

    @property
    def path(self) -> Path: ...

    @property
    def data(self) -> memoryview | None: ...

    @property
    def encoding(self) -> Encoding: ...


class FloatReader:
    """Reads one flat float32 vector from a file or memory, in order; at the end `is_intact` tells whether the file's
    bytes are those that were stored. Reads must start at a block of the encoding (`LARGEST_BLOCK`)."""

    def __init__(self, held: Held, files: OpenFiles) -> None:
        self._held = held
        self._files = files
        self._passed = xxhash.xxh3_64()

    @property
    def checksum(self) -> int:
        """Checksum of everything read from the file."""
        return self._passed.intdigest()

    def is_intact(self, checksum: int) -> bool:
        """Whether everything read has this checksum; memory is not checked."""
        return self._held.data is not None or self.checksum == checksum

    def read(self, start: int, into: Float32Array) -> None:
        """Read values start .. start + len(into) - 1 into `into`, which must be contiguous."""
        if self._held.data is not None:
            into[:] = self.block(start, into.size)
            return
        if not into.size:
            return
        encoding = self._held.encoding
        wire = into.data if encoding == "f32" else bytearray(wire_bytes(encoding, into.size))
        with self._files.opened(self._held.path) as handle:
            read_exactly(handle, memoryview(wire), wire_bytes(encoding, start))
        self._passed.update(wire)
        if encoding != "f32":
            into[:] = from_wire(wire, encoding, into.size)

    def block(self, start: int, count: int) -> Float32Array:
        """Return `count` values from `start` as a new array or a view of memory; do not write to it."""
        if self._held.data is None:
            values = np.empty(count, dtype=np.float32)
            self.read(start, values)
            return values
        encoding = self._held.encoding
        wire = self._held.data[wire_bytes(encoding, start) : wire_bytes(encoding, start + count)]
        return from_wire(wire, encoding, count)
