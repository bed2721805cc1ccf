"""Waiting for disk space: writes that a full disk refuses are retried until they succeed, and the operator is notified.

For the training thread, which may stand still; the socket's thread goes on giving signs of life. Decides nothing about
what is written, and treats no other fault than a full disk (or a used-up quota).
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
"""Between two attempts: soon enough for whoever has just made room, and no burden."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

T = TypeVar("T")


def is_full(error: BaseException | None) -> bool:
    """Whether this is the fault that passes when somebody makes room."""
    return isinstance(error, OSError) and error.errno in _FULL


class Disk:
    """One participant's patience with its disk; `give_up` ends all waiting, from any thread."""

    def __init__(self, *, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """Whoever waits gets its fault, now and later."""
        self._given_up.set()

    def patiently(self, what: str, write: Callable[[], T]) -> T:
        """Do `write`, which must be whole or not at all, again and again while the disk is full."""
        waiting = False
        while True:
            try:
                done = write()
            except (OSError, InvalidInput) as error:
                found = error.__cause__ if isinstance(error, InvalidInput) else error
                if not is_full(found) or self._given_up.is_set():
                    raise
                if not waiting:
                    log.warning("disk.full", what=what, reason=str(found), so="it waits for room and goes on by itself")
                waiting = True
                self._given_up.wait(self._retry_s)
                continue
            if waiting:
                log.info("disk.free", what=what, so="it goes on")
            return done
