"""Small disks that can be filled: a tmpfs for a party's folder. Only root can make one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType

from scripts.drill.commands import ToolFailed, run_tool

_PAGE = 4096
_NAME = "fedap-drill"


class SmallDisk:
    """A separate file system at `folder`. Use as a context manager: it is unmounted at the end, whatever happens."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        self._size = size_bytes
        self._ballast = folder / "ballast"
        self.is_full = False

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True)
        run_tool("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=700", _NAME, str(self.folder))
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        run_tool("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Fill the disk down to the last page."""
        self.is_full = True
        with self._ballast.open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):  # others write at the same time
                os.posix_fallocate(file.fileno(), 0, max(self._free() - _PAGE, _PAGE))
            with contextlib.suppress(OSError), (self.folder / "rest").open("wb", buffering=0) as rest:
                while rest.write(bytes(_PAGE)):
                    continue

    def free(self) -> None:
        for path in (self._ballast, self.folder / "rest"):
            path.unlink(missing_ok=True)
        self.is_full = False

    def _free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


def why_impossible() -> str | None:
    """Return why small disks cannot be made here; None if they can, as far as known without making one."""
    return None if os.geteuid() == 0 else "only root may mount small disks"


def remove_leftovers(root: Path) -> None:
    """Unmount the disks below `root` of drills that were killed before they could."""
    with contextlib.suppress(OSError, ToolFailed):
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            name, place = line.split()[:2]
            if name == _NAME and place.startswith(f"{root}/"):
                run_tool("umount", "--lazy", place)
