"""A coordinator that stops itself (SIGSTOP) after every append to its journal, until it is continued or killed.

`python -m tests.support.halting_coordinator CONFIG` prints `appended N` each time, N counting the appends of its life.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinator.config import read_config
from coordinator.observers.log_lines import configure_logs
from coordinator.record.journal import Draft, SqliteJournal
from coordinator.runs import open_run


class HaltingJournal(SqliteJournal):
    """The real journal."""

    appended = 0

    def append(self, drafts: Sequence[Draft]) -> int:
        serial = super().append(drafts)
        self.appended += 1
        print(f"appended {self.appended}", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return serial


def main() -> None:
    config = read_config(Path(sys.argv[1]))
    configure_logs(config.run)
    federation = open_run(config, open_journal=HaltingJournal)
    print(f"ready: {federation.endpoint}", flush=True)
    sys.exit(1 if federation.coordinator.run().aborted else 0)


if __name__ == "__main__":
    main()
