"""Whether another process holds the lock on a file, without touching the lock."""

from __future__ import annotations

import os
from pathlib import Path


def is_locked(path: Path) -> bool | None:
    """Whether a process holds the lock on a file. Trying to take the lock could prevent its owner from starting. None
    if the system cannot tell."""
    try:
        found = path.stat()
        held = Path("/proc/locks").read_text()
    except OSError:
        return None
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(place in line.split() for line in held.splitlines())
