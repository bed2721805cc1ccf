"""Writes the time of each member's last message to a small file next to the journal; the page of the run reads it.

Heartbeats are not facts, so the journal does not have them. Nothing depends on the file: it is not synced, and write
errors are ignored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.config import RunConfig
from coordinator.observers import Observer

PULSE = "pulse.json"

_EVERY_S = 2.0
_MEMBERS_PER_S = 500
"""With many members the file is written less often: at most this many entries per second."""


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """The content of the file. written_s: seconds since this machine started, which nobody can set, unlike the time of
    day; time_s and heard: by the run clock."""

    written_s: float
    time_s: float
    received_at: Mapping[str, float]


class PulseFile(Observer):
    """Writes the pulse of one run, every few seconds at most."""

    def __init__(self, config: RunConfig) -> None:
        self._path = config.folder / PULSE
        self._next_s = 0.0

    def on_pulse(self, time_s: float, received_at: Mapping[str, float]) -> None:
        if time_s < self._next_s:
            return
        self._next_s = time_s + max(_EVERY_S, len(received_at) / _MEMBERS_PER_S)
        seconds = {name: round(at, 1) for name, at in received_at.items()}
        part = self._path.with_name(f".{PULSE}.part")
        with suppress(OSError):
            part.write_text(json.dumps({"written_s": time.monotonic(), "time_s": round(time_s, 1), "heard": seconds}))
            part.replace(self._path)


def read_pulse(folder: Path) -> Pulse | None:
    """Return the latest pulse, or None if there is none yet."""
    try:
        found = json.loads((folder / PULSE).read_text())
        received_at = {str(name): float(at) for name, at in found["heard"].items()}
        return Pulse(written_s=float(found["written_s"]), time_s=float(found["time_s"]), received_at=received_at)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
