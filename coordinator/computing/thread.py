"""The computing thread: takes jobs in order, and hands back what each one answers, so that the socket never waits.

Knows nothing of what a job does. A job that fails hands back its error in place of an answer; the thread goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Done(Generic[T]):
    """A finished job: the key it was given, its answer or its error, and the processor time it took."""

    key: T
    answer: object = None
    error: Exception | None = None
    cpu_s: float = 0.0


class Compute(Generic[T]):
    """One thread. `wake` is called from it whenever a job has ended."""

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float]) -> None:
        self._wake = wake
        self._clock = clock
        self._jobs: queue.SimpleQueue[tuple[T, Callable[[], object]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done[T]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="compute", daemon=True)
        self._thread.start()

    def submit(self, key: T, job: Callable[[], object]) -> None:
        """Do this after everything submitted before."""
        self._jobs.put((key, job))

    def finished(self) -> list[Done[T]]:
        """Jobs that have ended since the last call, in order; never waits."""
        ended: list[Done[T]] = []
        while not self._done.empty():
            ended.append(self._done.get_nowait())
        return ended

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (submitted := self._jobs.get()) is not None:
            key, job = submitted
            began = self._clock()
            try:
                done = Done(key=key, answer=job())
            except Exception as error:  # noqa: BLE001 - handed back, whatever it is: a dead thread would hang the run
                done = Done(key=key, error=error)
            self._done.put(Done(key=key, answer=done.answer, error=done.error, cpu_s=self._clock() - began))
            self._wake()
