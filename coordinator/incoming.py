"""Slices on their way into files: written in order by one thread and digested by another, beside the socket's.

The socket's thread hands a slice over and hears the next one meanwhile; when either thread is a window behind, it
waits, so that what lies between socket and disk stays bounded. A write that failed is told with the next slice of its
file, or when the file is asked for; nothing is written behind it, so that a file never has a gap. Knows no peers and no
reports.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from coordinator.blobs import opened, read_exactly, write_exactly
from protocol.contracts import Buffer
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import Digest, slice_digest

T = TypeVar("T")


class Lane:
    """One thread that does things in the order in which they were given. Whoever is a window ahead of it waits."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._ahead = threading.BoundedSemaphore(WINDOW_SLICES)

    def do(self, job: Callable[[], T]) -> Future[T]:
        """Give it something to do."""
        self._ahead.acquire()
        return self._threads.submit(self._done, job)

    def settle(self) -> None:
        """Wait until all of it is done."""
        self.do(bool).result()

    def _done(self, job: Callable[[], T]) -> T:
        try:
            return job()
        finally:
            self._ahead.release()


class Incoming:
    """The half-way payloads of a run, each a file. One thread's, but for what its lanes do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writing = Lane("slices")
        self._digesting = Lane("digests")
        self._failed: dict[Path, OSError] = {}

    def digest(self, data: Buffer) -> Digest:
        """The digest of a slice, made beside; nobody may write to the slice meanwhile."""
        return self._digesting.do(partial(slice_digest, data)).result

    def held(self, member: str, transfer: str, size_bytes: int) -> Iterator[Buffer]:
        """Whole slices of a transfer that an earlier connection or process has left here; the last is fetched anew."""
        path = self._path(member, transfer)
        self._settle(path)
        whole = 0
        if path.is_file():
            whole = min(path.stat().st_size // SLICE_BYTES, (size_bytes - 1) // SLICE_BYTES)
        with opened(path, os.O_RDWR | os.O_CREAT) as handle:
            os.ftruncate(handle, whole * SLICE_BYTES)
            for number in range(whole):
                piece = bytearray(SLICE_BYTES)
                read_exactly(handle, memoryview(piece), number * SLICE_BYTES)
                yield piece

    def take(self, member: str, transfer: str, offset: int, data: Buffer) -> None:
        """Put a slice where it belongs, soon. OSError: an earlier one of the same transfer could not be."""
        path = self._path(member, transfer)
        if path in self._failed and (error := self._settle(path)) is not None:  # what follows it is not written, either
            raise error
        self._writing.do(partial(self._write, path, offset, data))

    def hand_over(self, member: str, transfer: str, place: Path) -> None:
        """Move a payload, all of whose slices were taken, to its place. OSError: one of them is not there."""
        path = self._path(member, transfer)
        error = self._settle(path)
        if error is not None:
            raise error
        path.replace(place)

    def drop(self, member: str, keep: frozenset[str] = frozenset()) -> None:
        """Delete a member's half-way transfers, apart from those named."""
        self.settle()
        for path in self._folder.glob(f"{member}~*"):
            if path.name.partition("~")[2] not in keep:
                path.unlink(missing_ok=True)
                self._failed.pop(path, None)

    def settle(self) -> None:
        """Wait until everything that was taken is in its file, or will never be."""
        self._writing.settle()

    def _settle(self, path: Path) -> OSError | None:
        """Wait for the disk; what went wrong with this file, which is forgotten."""
        self.settle()
        return self._failed.pop(path, None)

    def _write(self, path: Path, offset: int, data: Buffer) -> None:
        if path in self._failed:
            return
        try:
            with opened(path, os.O_WRONLY | os.O_CREAT) as handle:
                write_exactly(handle, data, offset)
        except OSError as error:
            self._failed[path] = error

    def _path(self, member: str, transfer: str) -> Path:
        return self._folder / f"{member}~{transfer}"
