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
        overview = follower.refresh()
        text = json.dumps(overview.as_json()) if as_json else "\n".join(status_lines(read_run(folder), overview.ran_s))
        if text != before:
            yield text
        before = text
        if not watch or overview.ended:
            return
        pause.wait(AGAIN_S)
