"""Describes the machine of a measurement: processor, cores, memory, disk, versions, and whether it was busy.

Only observes; the load is shown, so that readers can decide how far to trust the figures.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from scripts.run.versions import versions

BUSY_PER_CORE = 0.25
"""Load per core above which figures are doubtful: an idle machine shows less than a tenth."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Load averages are those of the last 1, 5 and 15 minutes when the measurement began."""

    made: str
    processor: str
    cores: int
    memory_gb: float
    file_system: str
    load_average: tuple[float, float, float]
    versions: Mapping[str, str]

    @property
    def is_busy(self) -> bool:
        return self.load_average[0] > BUSY_PER_CORE * self.cores

    @property
    def sentence(self) -> str:
        load = " ".join(f"{one:.2f}" for one in self.load_average)
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gb:.0f} GB, {self.file_system}; load average {load}; "
            f"torch {self.versions['torch']}, numpy {self.versions['numpy']}, Python {self.versions['python']}"
        )

    @property
    def warning(self) -> str | None:
        """What to print before measuring on a busy machine."""
        if not self.is_busy:
            return None
        return f"WARNING: the machine is busy (load {self.load_average[0]:.2f}); ratios are noisy, times are wrong."


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def inspect(folder: Path) -> Machine:
    """Describe this machine now; `folder` is where runs will write."""
    one, five, fifteen = os.getloadavg()
    return Machine(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=_processor(),
        cores=cores(),
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        file_system=_file_system(folder),
        load_average=(round(one, 2), round(five, 2), round(fifteen, 2)),
        versions={**versions(), "pyzmq": version("pyzmq"), "kernel": platform.release()},
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of file system of a folder: on one in memory, a durable journal costs nothing."""
    found, longest = "unknown file system", 0
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return found
    for line in mounts:
        _, place, kind, *_ = line.split()
        if folder.absolute().is_relative_to(place) and len(place) > longest:
            found, longest = kind, len(place)
    return found
