"""Measures the time from the command to the first training step: a federation of 20 processes against A2."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

from scripts.bench.commands import Size, first_orders, our_command, plain_command
from scripts.bench.figures import Measurements, Threshold, quantity, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchScope
from scripts.bench.sheet import PartResult

OURS, PLAIN, ALL = "fedap-lab, 20 processes", "A2", "fedap-lab, until all 20 train"

_STEP = re.compile(r"^step ([0-9.]+)\n", re.MULTILINE)


def measure(scope: BenchScope) -> PartResult:
    """Measure the seconds of both, and their ratio."""
    size = Size(clients=scope.sized(20, 3), samples=scope.sized(512, 64))
    folders = (scope.folder / str(number) for number in itertools.count())
    everybody: list[float] = []

    def ours() -> float:
        first, last = _our_start(size, next(folders))
        everybody.append(last)
        return first

    contenders: dict[str, Callable[[], float]] = {OURS: ours, PLAIN: lambda: _plain_start(size, next(folders))}
    found = interleave(contenders, passes=scope.passes, unit="s", warm_up=1)  # warm: files are in the page cache
    found[ALL] = Measurements(name=ALL, unit="s", values=tuple(everybody[1:]))
    return PartResult(
        part="startup",
        findings=(
            quantity("command to first training step, 20 participants", found[OURS], Threshold(must=5.0, goal=3.0)),
            ratio("the same / A2's command to its first step", found[OURS], found[PLAIN]),
            ratio("command until all 20 train / A2's command to its first step", found[ALL], found[PLAIN]),
        ),
        series=tuple(found.values()),
    )


def _our_start(size: Size, folder: Path) -> tuple[float, float]:
    """Return when the first participant began to train, and when the last did."""
    folder.mkdir()
    with our_command(size, folder) as command:
        command.wait_for(lambda: len(first_orders(folder)) == size.clients)
        began = first_orders(folder)
        return min(began.values()) - command.started, max(began.values()) - command.started


def _plain_start(size: Size, folder: Path) -> float:
    folder.mkdir()
    with plain_command(size, folder) as command:
        command.wait_for(lambda: bool(_STEP.search(command.output())))
        return min(float(at) for at in _STEP.findall(command.output())) - command.started
