"""The name of a payload: a digest of its bytes, which detects changes in transit.

A name is the XXH3-128 of the XXH3-128s of the payload's slices, in order. So slices can be hashed on all cores in
parallel, in whichever thread holds them, and each side hashes every byte once. XXH3 detects errors at the speed of
memory. It does not resist attackers and need not: whoever names a payload also chooses its bytes, and CURVE keeps
others from changing them in transit. This file must not know tensors, messages, or how slices are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import xxhash

from protocol.contracts import Buffer
from protocol.limits import SLICE_BYTES

NAME_DIGITS = 32
"""Hexadecimal digits of a name."""

MOST_THREADS = 4
"""Most threads that hash one payload: more would wait for memory."""

PendingDigest = Callable[[], bytes]
"""Returns a slice's digest; waits for it if another thread computes it."""


def slice_digest(data: Buffer) -> bytes:
    """Return the digest of one slice, 16 bytes."""
    return xxhash.xxh3_128_digest(data)


def digest_at_once(data: Buffer) -> PendingDigest:
    """Compute the digest of a slice in the caller's thread."""
    digest = slice_digest(data)
    return lambda: digest


def name_of(digests: Iterable[bytes]) -> str:
    """Return the name of the payload whose slices have these digests."""
    return xxhash.xxh3_128_hexdigest(b"".join(digests))


def cut(data: Buffer, slice_bytes: int = SLICE_BYTES) -> Iterator[memoryview]:
    """Yield the slices of these bytes in order; the last one may be shorter."""
    view = memoryview(data).cast("B")
    return (view[start : start + slice_bytes] for start in range(0, view.nbytes, slice_bytes))


def content_name(data: Buffer, *, slice_bytes: int = SLICE_BYTES) -> str:
    """Return the name of a payload in memory. Large payloads are hashed by several threads."""
    slices = cut(data, slice_bytes)
    threads = min(MOST_THREADS, memoryview(data).nbytes // SLICE_BYTES)
    if threads < 2:
        return name_of(map(slice_digest, slices))
    with ThreadPoolExecutor(threads, thread_name_prefix="naming") as pool:
        return name_of(pool.map(slice_digest, slices))


class Naming:
    """Computes the name of a payload that is created or read piece by piece; pieces need not be slices."""

    def __init__(self, *, slice_bytes: int = SLICE_BYTES) -> None:
        self._slice = slice_bytes
        self._digests: list[bytes] = []
        self._open = xxhash.xxh3_128()
        self._room = slice_bytes

    def update(self, piece: Buffer) -> None:
        """Add the next bytes."""
        view = memoryview(piece).cast("B")
        while view.nbytes:
            part, view = view[: self._room], view[self._room :]
            self._open.update(part)
            self._room -= part.nbytes
            if self._room == 0:
                self._digests.append(self._open.digest())
                self._open, self._room = xxhash.xxh3_128(), self._slice

    def name(self) -> str:
        """Return the name of everything added so far."""
        last = () if self._room == self._slice else (self._open.digest(),)
        return name_of((*self._digests, *last))
