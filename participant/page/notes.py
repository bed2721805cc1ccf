"""What a participant writes down for its page: how far the present round is, and what every finished round came to.

Two small files in the state folder, so that a page can be opened at any time. Nothing else depends on them; where they
cannot be written, training goes on.
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
    """Somebody to tell about every batch, who writes it down now and again, and every finished round at once."""
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
