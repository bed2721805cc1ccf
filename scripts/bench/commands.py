"""Starts commands as a user would, observes them until they have progressed far enough, then ends them.

Ours is `fedap-lab compare --engine processes` with 20 participants; the other is A2 as a program. The time of the first
training step is read from their output: participants log every order they begin, A2 prints.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from scripts.bench.job import BATCH, ENDLESS_ROUNDS
from scripts.bench.processes import family

PATIENCE_S = 180.0
_GLANCE_S = 0.1
"""Infrequent, because observing takes processor time from the observed; exact times come from their own output."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Number of participants, and of training samples of each."""

    clients: int
    samples: int


class Command:
    """A running command. started: wall-clock time at which it was called."""

    def __init__(self, arguments: list[str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.started = time.time()
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                [sys.executable, "-m", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait until a condition holds; raises if the command ends before."""
        until, pause = time.monotonic() + PATIENCE_S, threading.Event()
        while not done():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the command made no progress: {self.output()[-500:]}")
            pause.wait(_GLANCE_S)

    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    @property
    def pids(self) -> list[int]:
        """Process ids of the command and everything it started."""
        return family(self._process.pid)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        everybody = self.pids
        os.killpg(self._process.pid, signal.SIGKILL)  # it has its own session: no other process is in it
        self._process.wait()
        until, pause = time.monotonic() + PATIENCE_S, threading.Event()
        while any(_runs(pid) for pid in everybody) and time.monotonic() < until:
            pause.wait(_GLANCE_S)


def _runs(pid: int) -> bool:
    """Whether a process is running, not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def plain_command(size: Size, folder: Path) -> Command:
    """Start A2."""
    return Command(["scripts.bench.plain_start", str(size.clients), str(size.samples)], folder / "plain.txt")


def our_command(size: Size, folder: Path) -> Command:
    """Start a federation of processes on the same job; half of a client's samples are for tests, which are not run."""
    options = {"samples": 2 * size.clients * size.samples, "sites": 1, "shape": "1x28x28", "classes": 11}
    arguments = ["scripts.lab", "compare", "--data", "synthetic", "--partition", "iid", "--model", "lenet5"]
    for name, value in options.items():
        arguments += ["--data-option", f"{name}={value}"]
    arguments += ["--clients", str(size.clients), "--algorithms", "fedbn", "--batch-size", str(BATCH)]
    arguments += ["--rounds", str(ENDLESS_ROUNDS), "--evaluate-every", str(ENDLESS_ROUNDS)]
    arguments += ["--engine", "processes", "--no-keep-models", "--out", str(folder / "runs")]
    return Command(arguments, folder / "ours.txt")


def first_orders(folder: Path) -> dict[str, float]:
    """Return wall-clock times at which the participants of the command in `folder` started to train, by log."""
    found = {}
    for path in folder.glob("runs/*/federation/logs/*.log"):
        whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]  # the last may be incomplete
        for line in whole.splitlines():
            if '"order.begun"' in line and '"train"' in line:
                logged = json.loads(line)["timestamp"]
                found[path.stem] = datetime.fromisoformat(logged).timestamp()
                break
    return found


def finished_rounds(folder: Path) -> int:
    """Return the number of rounds that the command in `folder` has recorded."""
    lines = [path.read_text(encoding="utf-8") for path in folder.glob("runs/*/rounds.jsonl")]
    return sum(text.count("\n") for text in lines)
