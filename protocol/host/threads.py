"""Lowers the priority of threads that a library starts for itself. Linux only: there, priorities belong to threads."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextlib.contextmanager
def started_with_low_priority(niceness: int) -> Iterator[None]:
    """Give threads that are started inside the block a lower priority than ours, if this system can."""
    if sys.platform != "linux":
        yield
        return
    before = set(_TASKS.iterdir())
    yield
    for thread in set(_TASKS.iterdir()) - before:
        with contextlib.suppress(OSError):  # it has ended, or a system that forbids even this
            os.setpriority(os.PRIO_PROCESS, int(thread.name), os.getpriority(os.PRIO_PROCESS, 0) + niceness)
