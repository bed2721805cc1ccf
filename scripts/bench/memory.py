"""Measures peak memory of 20 participant processes and a coordinator against A2's: PSS summed over all processes.

The command's own process counts too, because it shares pages with the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from scripts.bench.commands import Command, Size, finished_rounds, our_command, plain_command
from scripts.bench.figures import Threshold, quantity, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchScope
from scripts.bench.processes import pss_gb
from scripts.bench.sheet import PartResult

OURS, PLAIN = "fedap-lab, 20 processes", "A2"
ROUNDS = 2
"""Measured until so many rounds are done: nothing grows after the first."""


def measure(scope: BenchScope) -> PartResult:
    """Measure the largest sum during the rounds."""
    size = Size(clients=scope.sized(20, 3), samples=scope.sized(512, 64))
    folders = (scope.folder / str(number) for number in itertools.count())
    contenders: dict[str, Callable[[], float]] = {
        OURS: lambda: _our_peak(size, next(folders)),
        PLAIN: lambda: _plain_peak(size, next(folders)),
    }
    found = interleave(contenders, passes=scope.passes, unit="GB")
    return PartResult(
        part="memory",
        findings=(
            quantity("peak PSS, 20 participants + coordinator", found[OURS], Threshold(must=1.0, goal=0.7)),
            ratio("the same / A2", found[OURS], found[PLAIN]),
        ),
        series=tuple(found.values()),
    )


def _our_peak(size: Size, folder: Path) -> float:
    folder.mkdir()
    with our_command(size, folder) as command:
        return _peak(command, lambda: finished_rounds(folder) >= ROUNDS)


def _plain_peak(size: Size, folder: Path) -> float:
    folder.mkdir()
    with plain_command(size, folder) as command:
        return _peak(command, lambda: command.output().count("round") >= 2 * ROUNDS)


def _peak(command: Command, done: Callable[[], bool]) -> float:
    peak = 0.0

    def trained() -> bool:
        nonlocal peak
        peak = max(peak, pss_gb(command.pids))
        return done()

    command.wait_for(trained)
    return peak
