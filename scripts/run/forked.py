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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

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


class ChildTask:
    """Work running in a child process; its return value is discarded. Call `wait` or `abandon`."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._outcome, theirs = FORK.Pipe(duplex=False)
        self._child = FORK.Process(target=_report_failure, args=(work, theirs, os.getpid()))
        with signals_held():
            self._child.start()
        theirs.close()

    def wait(self) -> None:
        """Wait until the work is done; an error in the child is raised here."""
        try:
            complaint = json.loads(self._outcome.recv_bytes())
        except EOFError as error:
            raise RuntimeError(f"a worker process ended with code {self._end()}") from error
        except BaseException:
            self.abandon()
            raise
        self._end()
        if complaint is not None:
            raise error_from_json(complaint)

    def abandon(self) -> None:
        """Terminate the child."""
        self._child.terminate()
        self._end()

    def _end(self) -> int | None:
        self._child.join()
        code = self._child.exitcode
        self._child.close()
        self._outcome.close()
        return code


def run_in_child(work: Callable[[], None]) -> None:
    """Do tensor work in a forked child, so that this process may still fork afterwards."""
    ChildTask(work).wait()


def _report_failure(work: Callable[[], object], parent: Connection, parent_id: int) -> None:
    unwind_on_sigterm()
    end_with_parent(parent_id)
    try:
        work()
        parent.send_bytes(b"null")
    except (InvalidInput, OSError) as error:
        parent.send_bytes(json.dumps(error_to_json(error)).encode())


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
