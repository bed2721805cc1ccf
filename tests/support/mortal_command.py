"""Any command of the project that is killed at a chosen write: the real one, in a process that counts.

`python -m tests.support.mortal_command WHERE NUMBER MODULE ARGUMENTS...` dies by SIGKILL right before its NUMBER-th
operation on a file below the folder WHERE (an open for writing, a rename, a link, a removal, a new folder) or, with a
NUMBER below zero, by SIGXFSZ when a file grows beyond -NUMBER - 1 bytes.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import coordinator.cli
import participant.cli
import participant.record.bundle

_CHANGES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "shutil.copyfile", "sqlite3.connect")


def _die_before(number: int, folder: Path) -> None:
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if not writes and event not in _CHANGES:
            return
        if any(isinstance(one, str | os.PathLike) and str(folder) in str(one) for one in arguments[:2]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main() -> None:
    folder, number, module, *arguments = sys.argv[1:]
    if int(number) > 0:
        _die_before(int(number), Path(folder))
    elif int(number) < 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (-int(number) - 1, resource.RLIM_INFINITY))
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


__all__ = ["coordinator", "main", "participant"]

if __name__ == "__main__":
    main()
