"""Wait for the disk: what a full disk refuses, or a folder that was moved away, is retried until it succeeds, and the
operator is notified.

For the training thread, which may block; the socket's thread keeps sending signs of life. Decides nothing about what is
written or read, and handles no other error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from fedap_core.errors import InvalidInput

log = structlog.get_logger()

RETRY_S = 2.0
"""Pause between two attempts: short enough for an operator who has just freed space, and cheap."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

T = TypeVar("T")


def is_full(error: BaseException | None) -> bool:
    """Whether the error will go away once disk space is freed."""
    return isinstance(error, OSError) and error.errno in _FULL


class _FolderMoved(OSError):
    """The folder is not where it was: it was renamed, or its disk is not mounted."""


class Disk:
    """Retries what one participant writes and reads; `give_up` ends all waiting, from any thread."""

    def __init__(self, *, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._given_up = threading.Event()
        self._held: tuple[Path, int] | None = None

    def give_up(self) -> None:
        """Make everything, waiting or later, raise its error instead of waiting."""
        self._given_up.set()

    def hold(self, folder: Path) -> None:
        """Write only as long as this folder is where it is now: one that was moved away must not be made anew, because
        half of the state would then be in each."""
        self._held = folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def release(self) -> None:
        """Stop holding the folder."""
        if self._held is not None:
            os.close(self._held[1])
        self._held = None

    def retry(self, what: str, act: Callable[[], T]) -> T:
        """Write or read by `act`, which must be atomic, and retry it while the disk is full or the folder elsewhere."""
        waiting = False
        while True:
            try:
                self._require_folder()
                done = act()
            except (OSError, InvalidInput) as error:
                reason = self._passing_reason(error)
                if reason is None or self._given_up.is_set():
                    raise
                if not waiting and isinstance(reason, _FolderMoved):
                    log.warning("state.moved", what=what, reason=str(reason), effect="waiting until it is back")
                elif not waiting:
                    log.warning("disk.full", what=what, reason=str(reason), effect="waiting for free space")
                waiting = True
                self._given_up.wait(self._retry_s)
                continue
            if waiting:
                log.info("disk.free", what=what, effect="continuing")
            return done

    def _passing_reason(self, error: OSError | InvalidInput) -> OSError | None:
        """Return why it may succeed later; None if it cannot. A move in the middle may cause any error."""
        found = error.__cause__ if isinstance(error, InvalidInput) else error
        if isinstance(found, OSError) and is_full(found):
            return found
        try:
            self._require_folder()
        except _FolderMoved as moved:
            return moved
        return None

    def _require_folder(self) -> None:
        if self._held is None:
            return
        folder, descriptor = self._held
        held = os.fstat(descriptor)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = folder.stat()
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
                return
        if held.st_nlink == 0:
            fix = "Restore it, or start again without it: training then restarts from what the run delivers."
            raise InvalidInput("state", folder, "a folder that is not deleted", fix)
        raise _FolderMoved(errno.ENOENT, "the state folder was moved away", str(folder))
