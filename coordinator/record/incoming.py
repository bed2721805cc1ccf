"""Write incoming slices to files: one thread writes in order, others hash, outside the socket's thread.

The socket's thread hands a slice over and receives the next one meanwhile; if writing or hashing is a window behind, it
waits, so that the data between socket and disk stays bounded. A failed write is raised with the next slice of its file,
or when the file is requested; nothing is written after it, so that a file never has a gap. A file may be a reused one,
so its progress is stored after the payload's last byte. Knows no peers and no reports.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from coordinator.record.blobs import opened, read_exactly, write_exactly
from coordinator.record.disk import ReusableFiles
from protocol.contracts import Buffer
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import PendingDigest, slice_digest

T = TypeVar("T")

_PROGRESS = struct.Struct("<8sQ")
"""Stored after the payload's last byte: a mark, and how many bytes are held. The footer of the finished file replaces
it."""
_MARK = b"fedapcut"


class JobQueue:
    """Threads that start jobs in the order of submission. A caller that is a window ahead of them waits."""

    def __init__(self, name: str, *, threads: int = 1) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._ahead = threading.BoundedSemaphore(WINDOW_SLICES)

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Submit a job."""
        self._ahead.acquire()
        return self._threads.submit(self._done, job)

    def settle(self) -> None:
        """Wait until all jobs are done; for a lane with one thread."""
        self.submit(bool).result()

    def _done(self, job: Callable[[], T]) -> T:
        try:
            return job()
        finally:
            self._ahead.release()


class Incoming:
    """The incomplete payloads of a run, one file each. Used by one thread, apart from its lanes.

    reusable: files that may be overwritten; filling one costs at most half as much as a new file.
    """

    def __init__(self, folder: Path, reusable: ReusableFiles) -> None:
        self._folder = folder
        self._reusable = reusable
        self._writing = JobQueue("slices")
        self._digesting = JobQueue("digests", threads=2)  # in any order; two, so that the last digests take less time
        self._sizes: dict[Path, int] = {}
        self._failed: dict[Path, OSError] = {}
        self._inherited: set[Path] = set()
        """Files with slices received by an earlier process."""

    def digest(self, data: Buffer) -> PendingDigest:
        """Compute the digest of a slice in another thread; the slice must not be written to meanwhile."""
        return self._digesting.submit(partial(slice_digest, data)).result

    def held(self, member: str, transfer: str, size_bytes: int) -> Iterator[Buffer]:
        """Start or restart a transfer: yield the whole slices that an earlier connection or process received. The
        payload's last slice is always fetched again."""
        path = self._path(member, transfer)
        self._settle(path)
        is_ours = path in self._sizes
        self._sizes[path] = size_bytes
        if not path.exists():
            self._reusable.take(path)
            self._note(path, 0)
        with opened(path, os.O_RDWR) as handle:
            whole = min(_progress(handle, size_bytes), size_bytes - 1) // SLICE_BYTES
            if whole and not is_ours:
                self._inherited.add(path)
            for number in range(whole):
                piece = bytearray(SLICE_BYTES)
                read_exactly(handle, memoryview(piece), number * SLICE_BYTES)
                yield piece
        self._note(path, whole * SLICE_BYTES)

    def take(self, member: str, transfer: str, offset: int, data: Buffer) -> None:
        """Queue the write of a slice of a started transfer. OSError: an earlier slice could not be written."""
        path = self._path(member, transfer)
        if path in self._failed and (error := self._settle(path)) is not None:  # later slices were not written either
            raise error
        self._writing.submit(partial(self._write, path, offset, data))

    def hand_over(self, member: str, transfer: str, place: Path) -> None:
        """Move a complete payload to its final path. OSError: one of its slices could not be written."""
        path = self._path(member, transfer)
        error = self._settle(path)
        if error is not None:
            raise error
        path.replace(place)
        self._forget(path)

    def drop(self, member: str, keep: frozenset[str] = frozenset()) -> bool:
        """Delete a member's incomplete transfers except those in `keep`. True if one had slices of an earlier process:
        after a power loss, the recorded progress need not match the bytes on disk."""
        self.settle()
        gone = [path for path in self._folder.glob(f"{member}~*") if path.name.partition("~")[2] not in keep]
        is_inherited = not self._inherited.isdisjoint(gone)
        for path in gone:
            path.unlink(missing_ok=True)
            self._forget(path)
        return is_inherited

    def _forget(self, path: Path) -> None:
        self._failed.pop(path, None)
        self._sizes.pop(path, None)
        self._inherited.discard(path)

    def settle(self) -> None:
        """Wait until every queued slice is written or has failed."""
        self._writing.settle()

    def _settle(self, path: Path) -> OSError | None:
        """Wait for the disk; return this file's write error, if any, and clear it."""
        self.settle()
        return self._failed.pop(path, None)

    def _write(self, path: Path, offset: int, data: Buffer) -> None:
        if path in self._failed:
            return
        try:
            with opened(path, os.O_WRONLY) as handle:
                write_exactly(handle, data, offset)
                held = offset + memoryview(data).nbytes
                write_exactly(handle, _PROGRESS.pack(_MARK, held), self._sizes[path])
        except OSError as error:
            self._failed[path] = error

    def _note(self, path: Path, held: int) -> None:
        with opened(path, os.O_WRONLY | os.O_CREAT) as handle:
            write_exactly(handle, _PROGRESS.pack(_MARK, held), self._sizes[path])

    def _path(self, member: str, transfer: str) -> Path:
        return self._folder / f"{member}~{transfer}"


def _progress(handle: int, size_bytes: int) -> int:
    """Return how many bytes of the payload a file holds."""
    noted = os.pread(handle, _PROGRESS.size, size_bytes)
    if len(noted) < _PROGRESS.size:
        return 0
    mark, held = _PROGRESS.unpack(noted)
    return held if mark == _MARK else 0
