"""Runs a coordinator in a separate process and reports when events happen in it, such as an update's arrival.

It is the real coordinator, made by `open_run`; only its machine is observed. Times are from the monotonic clock, which
all processes of a machine share.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from coordinator.config import make_config
from coordinator.decisions import events
from coordinator.decisions.actions import Action
from coordinator.runs import Federation, open_run
from scripts.bench.light_peers import PATIENCE_S
from scripts.run.forked import FORK, signals_held, unwind_on_sigterm

"""(name of the event's class, monotonic time at which the machine received it)."""


class WatchedCoordinator:
    """A coordinator that listens at `endpoint`; killed at the end of the `with` block."""

    def __init__(self, fields: Mapping[str, object], log: Path) -> None:
        self._pipe, theirs = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=_serve, args=(dict(fields), log, theirs))
        with signals_held():
            self._process.start()
        theirs.close()
        self.endpoint = str(self._receive())

    def moment(self, name: str) -> float:
        """Return when the machine next received such an event."""
        while True:
            seen, at = self._receive()
            if seen == name:
                return float(at)

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def _receive(self) -> Any:  # noqa: ANN401 - whatever the child sends, checked by its reader
        if not self._pipe.poll(PATIENCE_S):
            raise RuntimeError("the coordinator does not answer")
        return json.loads(self._pipe.recv_bytes())

    def __enter__(self) -> WatchedCoordinator:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(fields: dict[str, object], log: Path, parent: Connection) -> None:
    unwind_on_sigterm()
    with log.open("a", encoding="utf-8") as file:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=file))
        federation = open_run(make_config(fields))
        _listen(federation, parent)
        parent.send_bytes(json.dumps(federation.endpoint).encode())
        federation.coordinator.run()


def _listen(federation: Federation, parent: Connection) -> None:
    decide = federation.machine.handle

    def handle(event: events.Event, now: float) -> list[Action]:
        if isinstance(event, events.UpdateArrived | events.MixingDone | events.Inspected):
            parent.send_bytes(json.dumps([type(event).__name__, time.monotonic()]).encode())
        return decide(event, now)

    federation.machine.handle = handle  # type: ignore[method-assign]
