"""Manages processes forked from this one, each with its log and exit code; none outlives this process.

Until the last fork the parent may only import modules: it must have no thread, ZeroMQ context or database handle, which
a child would inherit in a broken state. Children are only ever ended by SIGKILL: everything they do survives that by
design, whereas SIGTERM would be reported to the federation as a wish to leave.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import TracebackType

from fedap_core.errors import InvalidInput
from scripts.run.forked import FORK, how_it_ended, signals_held

_LAST_LINES = 5
"""Lines of a failed child's log to report: enough to see why, few enough for one message."""


_LOADED_ANYWAY = ("encodings.cp437", "numpy.ctypeslib", "numpy.ma", "numpy.random")
"""Libraries import these at first use, each child again in its own memory; imported here, they are shared."""


class ChildFailed(RuntimeError):
    """A process of the federation ended too early."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """One process. name: as shown to users."""

    name: str
    process: ForkProcess
    log: Path

    def last_lines(self) -> str:
        """Return the end of its log in one line."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return " | ".join(text.splitlines()[-_LAST_LINES:]) or "nothing"


class Children:
    """All processes of one run. Use as a context manager: no process is left behind, even if this one is killed."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._alive: list[Child] = []
        self._lifeline, self._our_end = os.pipe()

    def __enter__(self) -> Children:
        for name in _LOADED_ANYWAY:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()  # a collection in a child would write to every shared page
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for handle in (self._lifeline, self._our_end):
            os.close(handle)
        gc.unfreeze()

    def fork(self, name: str, work: Callable[[], int], *, stdout: int | None = None) -> Child:
        """Start `work` in a new process; its return value is the exit code. stdout: where it prints, else its log."""
        log = self._logs / f"{name}.log"
        process = FORK.Process(target=self._live, args=(work, log, stdout), daemon=True, name=name)
        with signals_held():
            process.start()
            child = Child(name=name, process=process, log=log)
            self._alive.append(child)
        return child

    @property
    def alive(self) -> list[Child]:
        return list(self._alive)

    def wait(self, *others: int, timeout_s: float) -> None:
        """Wait until a child ends, a given handle is readable, or the time is over; raises if a child failed."""
        ready = wait([child.process.sentinel for child in self._alive] + list(others), timeout=timeout_s)
        for child in [one for one in self._alive if one.process.sentinel in ready]:
            child.process.join()
            self._alive.remove(child)
            code = child.process.exitcode
            if code:
                raise ChildFailed(f"{child.name} {how_it_ended(code)}; its log {child.log} ends: {child.last_lines()}")

    def kill(self) -> None:
        """Kill all children at once."""
        for child in self._alive:
            child.process.kill()
        for child in self._alive:
            child.process.join()
        self._alive = []

    def _live(self, work: Callable[[], int], log: Path, stdout: int | None) -> None:
        """Run in the child, from start to exit."""
        os.close(self._our_end)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle if stdout is None else stdout, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        threading.Thread(target=_die_with, args=(self._lifeline,), name="lifeline", daemon=True).start()
        sys.exit(guarded(work))


def guarded(work: Callable[[], int]) -> int:
    """Return the exit code of a piece of work; errors are written to stderr."""
    try:
        return work()
    except InvalidInput as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except Exception:  # noqa: BLE001 - the last frame of a process: the trace goes to its log
        traceback.print_exc()
        return 1


def _die_with(lifeline: int) -> None:
    """Kill this process when the parent is gone for any reason: only then does the pipe become readable."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)
