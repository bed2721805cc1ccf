"""Write what a participant's page shows: the progress of the current round, and the result of every finished round.

Two small files in the state folder, so that a page can be opened at any time. Nothing else depends on them; if they
cannot be written, training continues.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from participant.page.reading import PROGRESS, ROUNDS, current_run
from participant.training.pace import Progress

_EVERY_S = 0.5


def noting(state: Path) -> Callable[[Progress], None]:
    """Return a callback for every batch that writes progress at intervals, and every finished round at once."""
    written_at = float("-inf")

    def note(progress: Progress) -> None:
        nonlocal written_at
        is_finished = progress.loss is not None
        if not is_finished and time.monotonic() < written_at + _EVERY_S:
            return
        written_at = time.monotonic()
        with suppress(OSError):
            _write(state, progress)

    return note


def _write(state: Path, progress: Progress) -> None:
    entry = {**dataclasses.asdict(progress), "run": current_run(state), "written_s": time.time()}
    part = state / f".{PROGRESS}.part"
    part.write_text(json.dumps(entry))
    part.replace(state / PROGRESS)
    if progress.loss is not None:
        with (state / ROUNDS).open("a") as file:
            file.write(json.dumps(entry) + "\n")
