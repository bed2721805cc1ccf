"""Runs several federations on one machine: one process per configuration file of a folder, each with its own members,
port and state.

Decides which files are runs, whether they can run side by side, and when a process that died is restarted. It knows
nothing of a run but its exit code and whether its journal says that it has ended. Runs are crash-safe, so they are
killed with this process and resume with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coordinator.config import RunConfig, read_config
from coordinator.record.journal import JOURNAL
from coordinator.runs import read_run
from fedap_core.errors import InvalidInput
from fedap_core.exit_codes import DONE, FAILED, WRONG_INPUT

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Pause before a process that died is restarted: doubled each time, and reset after a process that ran long enough."""
POLL_S = 0.1

_PR_SET_PDEATHSIG = 1

PrintLine = Callable[[str], None]


def find_runs(folder: Path) -> dict[Path, RunConfig]:
    """Read the configurations of a folder, its files *.toml. Refused if two of them cannot run at the same time."""
    if not folder.is_dir():
        raise InvalidInput("runs", folder, "an existing folder with a .toml file for each run")
    found = {path: read_config(path) for path in sorted(folder.glob("*.toml"))}
    if not found:
        raise InvalidInput("runs", folder, "a folder with at least one .toml file")
    for field_name, taken in (("run", _name), ("folder", _folder), ("network.endpoint", _endpoint)):
        before: dict[str, Path] = {}
        for path, config in found.items():
            if (value := taken(config)) and (other := before.setdefault(value, path)) != path:
                raise InvalidInput(f"{field_name} of {path.name}", value, f"a different one than in {other.name}")
    return found


def _name(config: RunConfig) -> str:
    return config.run


def _folder(config: RunConfig) -> str:
    return str(config.folder.resolve())


def _endpoint(config: RunConfig) -> str:
    """Return what only one process can bind: the port, whatever the address; empty if the system chooses it."""
    endpoint = config.network.endpoint
    port = endpoint.rpartition(":")[2]
    return ("" if port == "*" else f"port {port}") if endpoint.startswith("tcp://") else endpoint


@dataclass(kw_only=True)
class Backoff:
    """How long to wait before a process is restarted."""

    pause_s: float = FIRST_PAUSE_S

    def after(self, ran_s: float) -> float:
        """Return the pause after a process that ran this long."""
        wait = FIRST_PAUSE_S if ran_s >= LONGEST_PAUSE_S else self.pause_s
        self.pause_s = min(2.0 * wait, LONGEST_PAUSE_S)
        return wait


@dataclass(kw_only=True)
class Supervised:
    """One run: its process, or when the next one starts. code: its exit code, None while it continues."""

    path: Path
    config: RunConfig
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    code: int | None = None


class Supervisor:
    """Starts every run and restarts those that died, until all have ended."""

    def __init__(self, runs: Mapping[Path, RunConfig], print_line: PrintLine) -> None:
        self._runs = [Supervised(path=path, config=config) for path, config in runs.items()]
        self._print = print_line
        self._wake = threading.Event()
        self._stopping = False

    def request_stop(self) -> None:
        """Ask every run to stop, like a signal: after its round; the second time, at once."""
        self._stopping = True
        for one in self._runs:
            if one.process is not None and one.process.poll() is None:
                one.process.terminate()
        self._wake.set()

    def run(self) -> int:
        """Run until all have ended; return DONE if every run ended normally, otherwise FAILED."""
        while any(one.code is None for one in self._runs):
            for one in self._runs:
                if one.code is None:
                    self._supervise(one, time.monotonic())
            self._wake.wait(POLL_S)
            self._wake.clear()
        return FAILED if any(one.code for one in self._runs) else DONE

    def _supervise(self, one: Supervised, now: float) -> None:
        if one.process is None:
            if self._stopping:
                self._end(one, DONE, "not running; start it again to resume")
            elif now >= one.start_at:
                self._start(one, now)
        elif (code := one.process.poll()) is not None:
            one.process = None
            self._judge(one, code, now)

    def _start(self, one: Supervised, now: float) -> None:
        command = [sys.executable, "-m", "coordinator", "serve", "--config", str(one.path)]
        one.process = subprocess.Popen(  # noqa: S603 - our own command
            command, start_new_session=True, preexec_fn=partial(_die_with_parent, os.getpid())
        )
        one.started_at = now
        self._print(f"started: run {one.config.run}, process {one.process.pid}")

    def _judge(self, one: Supervised, code: int, now: float) -> None:
        if code == DONE:
            self._end(one, DONE, "ended")
        elif code == WRONG_INPUT:
            self._end(one, code, "refused, see the error above; correct it and start again")
        elif self._stopping or has_ended(one.config):
            self._end(one, code, f"ended with exit code {code}")
        else:
            wait = one.backoff.after(now - one.started_at)
            one.start_at = now + wait
            self._print(f"exited: run {one.config.run}, {_how(code)}; restarting in {wait:g} s")

    def _end(self, one: Supervised, code: int, words: str) -> None:
        one.code = code
        self._print(f"stopped: run {one.config.run}, {words}")


def has_ended(config: RunConfig) -> bool:
    """Whether the journal says that the run is over, so that it need not be restarted."""
    if not (config.folder / JOURNAL).exists():
        return False
    try:
        past = read_run(config.folder)
    except InvalidInput:
        return False
    try:
        return past.machine.state.ended
    finally:
        past.journal.close()


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


def _die_with_parent(parent: int) -> None:
    """Called in the child, on Linux: kill it when its parent dies, so that a new supervisor finds the folders free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the line above
            os.kill(os.getpid(), signal.SIGKILL)
