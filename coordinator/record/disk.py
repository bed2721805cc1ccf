"""Manages the disk of a run: files that are overwritten instead of deleted, and checks of the free space.

Deleting a file and allocating a new one costs the kernel more than writing and syncing its bytes, so files of an
earlier round's reports are reused in the next. Before a round opens, there must be room for an update and a row per
member, and the reserve. A disk that failed although it had space is probed by writing to it, less and less often. The
machine decides what follows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from coordinator.decisions.events import Event, HelloArrived, MixingDone, Started, StorageFree, StorageLow, WeighingDone
from coordinator.decisions.machine import RoundMachine


class ReusableFiles:
    """Files to overwrite, in a folder that exists only while there are some. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._files: list[str] = []
        self._sizes: dict[str, int] = {}
        self._number = 0
        self._changing = threading.Lock()

    def put(self, paths: Sequence[str]) -> int:
        """Keep these files and delete those left over from earlier rounds, which will hardly be needed. Return the
        bytes kept."""
        if not paths:
            return 0
        with self._changing:
            left, self._files, self._sizes = self._files, [], {}
            os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - hundreds of paths in every round
            for path in paths:
                self._number += 1
                reused = f"{self._folder}/{self._number}"
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, reused)  # noqa: PTH104
                    self._sizes[reused] = os.stat(reused).st_size  # noqa: PTH116
                    self._files.append(reused)
            size = sum(self._sizes.values())
        _delete(left)
        return size

    def take(self, path: Path) -> None:
        """Move a reusable file to this path, if there is one."""
        with self._changing:
            if self._files:
                reused = self._files.pop()
                del self._sizes[reused]
                os.rename(reused, path)  # noqa: PTH104

    def size_bytes(self) -> int:
        """Return the disk space that the files use."""
        with self._changing:
            return sum(self._sizes.values())

    def drop(self) -> None:
        """Delete all of them: the run has ended, or the disk is full."""
        with self._changing:
            left, self._files, self._sizes = self._files, [], {}
        _delete(left)
        with contextlib.suppress(OSError):  # the folder does not exist
            os.rmdir(self._folder)  # noqa: PTH106


def _delete(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # on a failing disk, deletion may fail too
            os.unlink(path)  # noqa: PTH108


_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


def expected_members(machine: RoundMachine, at_least: int) -> int:
    """Return how many members the next round may have."""
    return max(len(machine.state.active()), at_least)


def room_beside(journal: Path, free_bytes: Callable[[], int]) -> Callable[[], int]:
    """Return a function that returns the free space. OSError while the journal that this process writes is not in its
    place: it was moved or deleted, and a restart would not find what is written to it."""
    began = journal.stat().st_ino if journal.exists() else None

    def checked() -> int:
        if began is not None and journal.stat().st_ino != began:
            raise FileNotFoundError(errno.ENOENT, "another file is in its place", str(journal))
        return free_bytes()

    return checked


class SpaceGuard:
    """Reports when disk space becomes low or sufficient again. clock: any monotonic clock."""

    OPENING: ClassVar[tuple[type[Event], ...]] = (Started, HelloArrived, MixingDone, WeighingDone)
    """Events after which a round may open: only then must everything it needs be free."""

    def __init__(
        self,
        *,
        free_bytes: Callable[[], int],
        can_write: Callable[[], bool],
        members: Callable[[], int],
        row_bytes: int,
        reserve_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._free = free_bytes
        self._can_write = can_write
        self._members = members
        self._row_bytes = row_bytes
        self._reserve = reserve_bytes
        self._clock = clock
        self._patience_s = _FIRST_RETRY_S
        self._failed_at: float | None = None
        self.is_low = False

    def needed_bytes(self) -> int:
        """Return the bytes that the next round may write, plus the reserve."""
        return self._reserve + 2 * self._members() * self._row_bytes

    def failed(self, reason: str) -> StorageLow:
        """Note that writing or reading failed: the disk is unreliable, however much space is free. If it fails again
        soon after it seemed to work, the time until the next probe doubles."""
        now = self._clock()
        if not self.is_low:
            recent = self._failed_at is not None and now < self._failed_at + 2 * self._patience_s
            self._patience_s = min(2 * self._patience_s, _LONGEST_RETRY_S) if recent else _FIRST_RETRY_S
        self.is_low, self._failed_at = True, now
        try:
            free = self._free()
        except OSError:
            free = 0
        return StorageLow(free_bytes=free, needed_bytes=self.needed_bytes(), reason=reason)

    def check(self, *, opening: bool) -> StorageLow | StorageFree | None:
        """Return an event if space became low or sufficient. During a round only half the reserve must be free. A
        folder that cannot be reached has no space."""
        try:
            free = self._free()
        except OSError as error:
            return None if self.is_low else self.failed(f"the run's folder is out of reach: {error}"[:400])
        needed = self.needed_bytes() if opening or self.is_low else self._reserve // 2
        if not self.is_low and free < needed:
            self.is_low = True
            return StorageLow(free_bytes=free, needed_bytes=needed)
        if self.is_low and free >= needed and self._works():
            self.is_low = False
            return StorageFree(free_bytes=free)
        return None

    def _works(self) -> bool:
        if self._failed_at is None:
            return True
        if self._clock() < self._failed_at + self._patience_s or not self._can_write():
            return False
        self._failed_at = self._clock()
        return True
