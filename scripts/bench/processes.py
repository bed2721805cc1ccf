"""Reads from the kernel what processes cost: processor time, memory that is really theirs, and their children.

PSS divides a shared page among the processes that share it: what forked participants share is not counted twenty times,
and nothing is left out of the sum.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


TICK_S = 1.0 / _TICKS
"""Resolution of the kernel's processor time."""


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a running process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def pss_gb(pids: Iterable[int]) -> float:
    """Return the proportional memory of these processes together; those that have ended do not count."""
    total_kb = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
        total_kb += int(found[1]) if found else 0
    return total_kb * 1024 / 1e9


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text(encoding="utf-8").split()]
            except OSError:  # a thread that has just ended
                continue
    return found
