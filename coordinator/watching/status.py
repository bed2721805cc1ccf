"""Print the `status` of a run, once or whenever it changes, as text or as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

from coordinator.runs import read_run
from coordinator.summaries import status_lines
from coordinator.watching.following import RunFollower

AGAIN_S = 2.0
"""Seconds between two refreshes."""


def status_texts(folder: Path, *, as_json: bool, watch: bool) -> Iterator[str]:
    """Yield the status once or, with `watch`, whenever it changes until the run has ended."""
    follower = RunFollower(folder)
    pause = threading.Event()
    before = None
    while True:
        text, ended = _as_json(follower) if as_json else _as_text(folder)
        if text != before:
            yield text
        before = text
        if not watch or ended:
            return
        pause.wait(AGAIN_S)


def _as_json(follower: RunFollower) -> tuple[str, bool]:
    overview = follower.refresh()
    return json.dumps(overview.as_json()), overview.ended


def _as_text(folder: Path) -> tuple[str, bool]:
    """Read the run from its latest snapshot: reading all facts of a long run takes minutes."""
    past = read_run(folder)
    try:
        return "\n".join(status_lines(past)), past.machine.state.ended
    finally:
        past.journal.close()
