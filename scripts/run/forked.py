"""Runs work in a forked child, and decides how forked processes start and how they end with their parent.

Imports no tensor library, directly or indirectly, so that a process can fork before it loads one.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

from threadpoolctl import ThreadpoolController

from fedap_core.errors import InvalidInput
from fedap_core.exit_codes import cut_short_by
from scripts.run.messages import error_from_json, error_to_json

FORK = multiprocessing.get_context("fork")
"""Start method of all processes of the lab, the drills and the benchmarks: children inherit the parent's data and code,
including strategies defined in a notebook."""

_PAUSE_HARD = 2
"""omp_pause_hard of omp.h."""


def _stop_openmp_threads() -> None:
    """End this process's OpenMP threads before it forks; its next parallel region starts new ones.

    A fork copies the table of those threads, not the threads: GNU OpenMP in the child then waits forever for their part
    of the first tensor operation. Without this, any fork after torch was used would hang, for instance in a notebook.
    """
    for library in ThreadpoolController().select(user_api="openmp").lib_controllers:
        if pause := getattr(library.dynlib, "omp_pause_resource_all", None):  # runtimes without it survive a fork
            pause(_PAUSE_HARD)


os.register_at_fork(before=_stop_openmp_threads)


class ForkedWorkers:
    """Children at the other ends of pipes, each running one of the bodies; they end when their pipe closes.

    daemon: they have no children of their own.
    """

    def __init__(self, bodies: Sequence[Callable[[Connection], None]], *, daemon: bool) -> None:
        self._members: list[tuple[ForkProcess, Connection]] = []
        for body in bodies:
            ours, theirs = FORK.Pipe()
            inherited = [ours, *(connection for _, connection in self._members)]
            process = FORK.Process(target=_live, args=(body, theirs, inherited), daemon=daemon)
            with signals_held():
                process.start()
                self._members.append((process, ours))
            theirs.close()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._members if process.pid is not None]

    def send(self, number: int, message: object, *, during: str = "its work") -> None:
        """Send a JSON value to one child. during: what it would do, if it has died."""
        with self._living(number, during) as connection:
            connection.send_bytes(json.dumps(message).encode())

    def receive(self, number: int, *, during: str = "its work") -> Any:  # noqa: ANN401 - whatever the child sends
        """Return the next JSON value from one child."""
        with self._living(number, during) as connection:
            return json.loads(connection.recv_bytes())

    @contextmanager
    def _living(self, number: int, during: str) -> Iterator[Connection]:
        process, connection = self._members[number]
        try:
            yield connection
        except (EOFError, ConnectionError) as error:
            process.join()
            raise RuntimeError(f"worker {number} {how_it_ended(process.exitcode)} during {during}") from error

    def close(self, *, stop: bool = False) -> None:
        """End all children. stop: in the middle of their work; they would notice a closed pipe only after it."""
        for _, connection in self._members:
            connection.close()
        for process, _ in self._members:
            if stop:
                process.terminate()
        for process, _ in self._members:
            process.join()
        self._members = []


def how_it_ended(code: int | None) -> str:
    """Say how a process ended, from multiprocessing's exit code."""
    return f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"


def _live(body: Callable[[Connection], None], parent: Connection, inherited: Sequence[Connection]) -> None:
    unwind_on_sigterm()
    for connection in inherited:  # kept open here, they would hide the parent's death
        connection.close()
    body(parent)


class ChildTask:
    """Work running in a child process, which returns a JSON value. Call `wait` or `abandon`. name: for errors."""

    def __init__(self, work: Callable[[], object], *, name: str = "") -> None:
        self._name = name
        self._child = ForkedWorkers([partial(_report, work, os.getpid())], daemon=False)

    def wait(self) -> Any:  # noqa: ANN401 - whatever the work returns
        """Wait until the work is done and return its value; an error in the child is raised here."""
        try:
            answer = self._child.receive(0, during=self._name or "its work")
        except BaseException:
            self.abandon()
            raise
        self._child.close()
        if "error" in answer:
            raise error_from_json(answer["error"], where=f"{self._name}: " if self._name else "")
        return answer["value"]

    def abandon(self) -> None:
        """Terminate the child."""
        self._child.close(stop=True)


def run_in_child(work: Callable[[], object]) -> Any:  # noqa: ANN401 - whatever the work returns
    """Do tensor work in a forked child, so that this process may still fork afterwards. Returns its JSON value."""
    return ChildTask(work).wait()


def _report(work: Callable[[], object], parent_id: int, parent: Connection) -> None:
    end_with_parent(parent_id)
    try:
        answer = {"value": work()}
    except (InvalidInput, OSError) as error:
        answer = {"error": error_to_json(error)}
    parent.send_bytes(json.dumps(answer).encode())


_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of linux/prctl.h."""

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_held() -> Iterator[None]:
    """Defer signals until the block is done, so that a started child is on its parent's list before one is handled.

    The child inherits the mask, so Ctrl-C never reaches it: its parent ends it, see `unwind_on_sigterm`. In the parent
    the mask alone defers nothing, because numerical libraries have threads of their own; a forked child has none.
    """
    arrived: list[int] = []
    handlers = {number: signal.signal(number, lambda came, _frame: arrived.append(came)) for number in _HELD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for came in arrived:
        signal.raise_signal(came)


def unwind_on_sigterm() -> None:
    """Run the `finally` clauses on SIGTERM, so that no child outlives this process."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(cut_short_by(signal.SIGTERM)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def end_with_parent(parent: int) -> None:
    """Have SIGTERM sent to this process when `parent` ends, for whatever reason. On systems other than Linux it ends at
    its next send to the parent. Call `unwind_on_sigterm` first."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before prctl was called
        sys.exit(cut_short_by(signal.SIGTERM))
