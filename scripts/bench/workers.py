"""Worker processes that run a number of rounds on request, and the time until all of them are done.

They are forked from a process that has done no tensor work; everything is set up in the child before the first order,
so that only rounds are timed. A child ends when its pipe closes. The bodies define what a round is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType

from scripts.run.forked import ForkedWorkers


class Gate:
    """The child's end: `wait` reports that everything ordered so far is done, and returns how many rounds come next."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent
        self._left = 0

    def wait(self) -> int:
        """Wait for the next order; ends the process when the parent is gone."""
        try:
            self._parent.send_bytes(b"null")
            return int(json.loads(self._parent.recv_bytes()))
        except (EOFError, ConnectionError):
            raise SystemExit(0) from None

    def passed(self) -> None:
        """Call after every round of a foreign loop; blocks the loop where an order ends."""
        self._left -= 1
        while self._left <= 0:
            self._left = self.wait()


Body = Callable[[Gate], None]
"""What a child does: set up, then as many rounds as its gate returns."""


def loop_of(make_round: Callable[[], Callable[[], None]]) -> Body:
    """Return a body made from a function that sets up and returns one round."""

    def body(gate: Gate) -> None:
        one_round = make_round()
        while True:
            for _ in range(gate.wait()):
                one_round()

    return body


class WorkerProcesses(ForkedWorkers):
    """Children that work in parallel. They end with the `with` block."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        super().__init__([partial(_run, body) for body in bodies], daemon=False)
        self._wait()

    def seconds_per_round(self, rounds: int) -> float:
        """Let all children do so many rounds; return the time until the last is done, divided by the rounds."""
        began = time.perf_counter()
        for number in range(len(self)):
            self.send(number, rounds)
        self._wait()
        return (time.perf_counter() - began) / rounds

    def _wait(self) -> None:
        for number in range(len(self)):
            self.receive(number)

    def __enter__(self) -> WorkerProcesses:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _run(body: Body, parent: Connection) -> None:
    body(Gate(parent))
