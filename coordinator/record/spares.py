"""Files that hold nothing of use any more, kept to be written over: reports of a round are as long as the last one's.

Deleting a file, and finding room for a new one, costs the kernel more than writing and forcing its bytes. A file that
is taken goes to its new name with what it held; whoever takes it writes all of it. Knows no blob and no journal.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path


class Spares:
    """Files in one folder, which exists only while there are some. From any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._files: list[str] = []
        self._sizes: dict[str, int] = {}
        self._number = 0
        self._changing = threading.Lock()

    def put(self, paths: Sequence[str]) -> int:
        """Keep these files, and no others: what a round left over, the next will hardly need. Returns their bytes."""
        if not paths:
            return 0
        with self._changing:
            left, self._files, self._sizes = self._files, [], {}
            os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - hundreds of paths in every round
            for path in paths:
                self._number += 1
                spare = f"{self._folder}/{self._number}"
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, spare)  # noqa: PTH104
                    self._sizes[spare] = os.stat(spare).st_size  # noqa: PTH116
                    self._files.append(spare)
            size = sum(self._sizes.values())
        _delete(left)
        return size

    def take(self, path: Path) -> None:
        """Move a file to this name, if there is one."""
        with self._changing:
            if self._files:
                spare = self._files.pop()
                del self._sizes[spare]
                os.rename(spare, path)  # noqa: PTH104

    def size_bytes(self) -> int:
        """What they take on the disk."""
        with self._changing:
            return sum(self._sizes.values())

    def drop(self) -> None:
        """Delete all of them: the run has ended, or the disk is full."""
        with self._changing:
            left, self._files, self._sizes = self._files, [], {}
        _delete(left)
        with contextlib.suppress(OSError):  # there is none
            os.rmdir(self._folder)  # noqa: PTH106


def _delete(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # a disk that fails need not take this, either
            os.unlink(path)  # noqa: PTH108
