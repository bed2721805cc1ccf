"""Measures what the parties of a drill cost: peak memory and open files, from the kernel, and the size of their logs.

It only observes. A process that ends between two measurements keeps the figures of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass
class Costs:
    """The largest values measured, by party."""

    memory_bytes: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def sample(self, pids: Mapping[str, int]) -> None:
        """Measure every running party."""
        for party, pid in pids.items():
            try:
                peak = _PEAK.search(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
                opened = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
            except OSError:  # it has just ended
                continue
            if peak is not None:
                self.memory_bytes[party] = max(self.memory_bytes.get(party, 0), int(peak[1]) * 1024)
            self.files[party] = max(self.files.get(party, 0), opened)


def log_bytes(logs: Mapping[str, Path]) -> dict[str, int]:
    """Return how much every party has logged."""
    return {party: path.stat().st_size if path.exists() else 0 for party, path in logs.items()}


def traces(logs: Mapping[str, Path]) -> list[str]:
    """Return parties whose log shows an uncaught exception; a caught one is only a field of a line."""
    return [
        party
        for party, path in logs.items()
        if path.exists() and any(line.startswith(b"Traceback (") for line in path.read_bytes().splitlines())
    ]


def last_line(log: Path, longest: int = 300) -> str:
    """Return the last line of a log, for users."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line[-longest:] for line in reversed(lines) if line.strip()), "none")
