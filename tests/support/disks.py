"""Small file systems that a test can fill. Mounting needs root; without it, there is no such disk and tests skip."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK = 8 * 2**20


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, unmounted at the end whatever happens."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "fedap-test", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    """A file that takes all of the disk but `leave` bytes, down to the last page where none are left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                continue
        except OSError:
            pass  # full, as intended
        file.truncate(max(file.tell() - leave, 0))
    return ballast
