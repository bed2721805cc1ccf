"""A coordinator that kills itself beside a chosen commit of its journal: the real one with a wrapped journal.

`python -m tests.support.mortal_coordinator CONFIG before|after N` dies by SIGKILL right before (after) its Nth append.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.config import read_config
from coordinator.observers.log_lines import configure_logs
from coordinator.record.journal import Draft, Entry, Journal, SqliteJournal
from coordinator.record.snapshots import Snapshot
from coordinator.runs import open_run


class KillingJournal:
    """Counts appends of this life."""

    def __init__(self, inner: Journal, *, when: str, number: int) -> None:
        self._inner = inner
        self._when = when
        self._left = number

    def append(self, drafts: Sequence[Draft]) -> int:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        serial = self._inner.append(drafts)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return serial

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return self._inner.entries(after)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._inner.save_snapshot(snapshot)

    def latest_snapshot(self) -> Snapshot | None:
        return self._inner.latest_snapshot()

    def metadata(self, name: str) -> str | None:
        return self._inner.metadata(name)

    def set_metadata(self, name: str, value: str) -> None:
        self._inner.set_metadata(name, value)

    def close(self) -> None:
        self._inner.close()


def main() -> None:
    config, when, number = read_config(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    configure_logs(config.run)
    federation = open_run(
        config, open_journal=lambda path: KillingJournal(SqliteJournal(path), when=when, number=number)
    )
    print(f"ready: run {config.run} at {federation.endpoint}", flush=True)
    federation.coordinator.run()


if __name__ == "__main__":
    main()
