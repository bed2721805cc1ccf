"""Print the `status` of a run, once or whenever it changes, as text or as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

from coordinator.observers.pulse_file import read_pulse
from coordinator.runs import LOCK, read_run
from coordinator.summaries import status_lines
from coordinator.watching.following import RunFollower, run_clock_s
from protocol.host.locks import is_locked

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
        ended = past.machine.state.ended
        now_s = run_clock_s(read_pulse(folder), past.ran_s, stands=ended or not is_locked(folder / LOCK))
        return "\n".join(status_lines(past, now_s)), ended
    finally:
        past.journal.close()
