"""Coordinators as processes of their own: started, waited for by their ready line, killed by their own id."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import prefork
from tests.support.federation import WAIT_S


@contextmanager
def served(config: Path, *, log: Path) -> Iterator[ServeProcess]:
    """A coordinator with this configuration; it does not outlive the block."""
    process = ServeProcess("serve", "--config", str(config), log=log)
    try:
        yield process
    finally:
        process.close()


class ServeProcess:
    """One life of a coordinator. Its output is read as it comes, so that it never waits for us."""

    def __init__(self, *arguments: str, module: str = "coordinator.cli", log: Path) -> None:
        self._log = log.open("ab")
        self.lines: queue.Queue[str] = queue.Queue()
        self.child = prefork.start(module, arguments, stderr=self._log.fileno(), env=os.environ)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self.child.stdout is not None:
            for line in self.child.stdout:
                self.lines.put(line.rstrip("\n"))

    def ready(self) -> str:
        """The endpoint of its ready line."""
        return self.lines.get(timeout=WAIT_S).rpartition(" ")[2]

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        self.child.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        code = self.child.wait(WAIT_S)
        self._reader.join()
        if self.child.stdout is not None:
            self.child.stdout.close()
        self._log.close()
        return code

    def close(self) -> None:
        """End it if it still lives."""
        if self.child.poll() is None:
            self.kill()
        elif not self._log.closed:
            self.wait()


def config_file(path: Path, fields: dict[str, Any]) -> Path:
    """A run.toml with these fields; a JSON value is a TOML value where it is no table."""
    plain = {name: value for name, value in fields.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for section, values in fields.items():
        if isinstance(values, dict):
            lines.append(f"[{section}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def command_outcome(log: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command of the coordinator to its end: exit code, what it said, and what it complained of."""
    log.unlink(missing_ok=True)
    process = ServeProcess(*arguments, log=log)
    code = process.wait()
    said = []
    while not process.lines.empty():
        said.append(process.lines.get())
    return code, "\n".join(said), log.read_text()
