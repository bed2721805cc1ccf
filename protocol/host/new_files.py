"""Creates files that are never incomplete under their name: a process that is killed leaves the whole file or none."""

from __future__ import annotations

import os
from pathlib import Path


def write_new(path: Path, text: str, *, mode: int) -> None:
    """Create a file with this content; FileExistsError if the name is taken, because nothing is replaced."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # of a process that was killed
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(part)  # unlike a rename, it never replaces a file
    finally:
        part.unlink()
