"""`fedap-lab` as a process of its own, forked from one that has loaded it: as it is, and in variants for tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from scripts import lab
from scripts.drill import parties
from scripts.engines import inline
from tests.support import prefork


def main() -> None:
    """The command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell hands SIGINT down as ignored
    lab.main()


def saving_every_round() -> None:
    """Saves the models of every round, so that a killed run has something to go on from."""
    inline.SAVE_EVERY_S = 0.0
    main()


def forgetful() -> None:
    """Drills with participants that lose what they had saved whenever they are started again."""

    def forgets(settings: Mapping[str, object]) -> int:
        join = settings["join"]
        assert isinstance(join, dict)
        shutil.rmtree(Path(join["state"]) / "state", ignore_errors=True)
        return parties.take_part(settings)

    parties.WORK["take part"] = forgets
    main()


class LabProcess:
    """The command, leading its own process group in `folder`. What it prints is kept in files without a name."""

    def __init__(self, arguments: Sequence[str], *, folder: Path, env: Mapping[str, str], function: str) -> None:
        self._printed = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115 - see `close`
        out, complaint = (file.fileno() for file in self._printed)
        self._child = prefork.start(
            "tests.support.lab", arguments, stdout=out, stderr=complaint, env=os.environ | dict(env),
            function=function, session_in=folder,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.returncode

    def poll(self) -> int | None:
        return self._child.poll()

    def send_signal(self, number: int) -> None:
        self._child.send_signal(number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; stdout and stderr."""
        self._child.wait(timeout)
        for file in self._printed:
            file.seek(0)
        out, complaint = (file.read() for file in self._printed)
        return out, complaint

    def close(self) -> None:
        """End it if it still lives."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        for file in self._printed:
            file.close()


@contextmanager
def lab_process(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, function: str = "main"
) -> Iterator[LabProcess]:
    """`fedap-lab`, or a variant of this file, as a real process; nothing of its group outlives the block."""
    process = LabProcess(arguments, folder=cwd, env=env or {}, function=function)
    try:
        yield process
    finally:
        process.close()
