"""Wait for disk space: writes that a full disk refuses are retried until they succeed, and the operator is notified.

For the training thread, which may block; the socket's thread keeps sending signs of life. Decides nothing about what is
written, and handles no error but a full disk (or an exceeded quota).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
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


class Disk:
    """Retries one participant's writes; `give_up` ends all waiting, from any thread."""

    def __init__(self, *, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """Make every write, waiting or later, raise its error instead of waiting."""
        self._given_up.set()

    def retry_while_full(self, what: str, write: Callable[[], T]) -> T:
        """Call `write`, which must be atomic, and retry it while the disk is full."""
        waiting = False
        while True:
            try:
                done = write()
            except (OSError, InvalidInput) as error:
                found = error.__cause__ if isinstance(error, InvalidInput) else error
                if not is_full(found) or self._given_up.is_set():
                    raise
                if not waiting:
                    log.warning("disk.full", what=what, reason=str(found), effect="waiting for free space")
                waiting = True
                self._given_up.wait(self._retry_s)
                continue
            if waiting:
                log.info("disk.free", what=what, effect="continuing")
            return done
