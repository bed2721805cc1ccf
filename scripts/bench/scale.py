"""Measures how a round grows with the number of participants: 20 to 1,000, hosted in two processes, with tiny data.

The reference is proportional growth from 20: for 200 participants, ten times the round of 20. Each trains one batch, so
that the federation's own cost is measured; memory, messages and bytes are given per participant. A round's time is the
median over rounds; small federations run more of them, because a few short rounds are within one slow moment.
"""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from coordinator.record.traffic import TrafficCounts
from scripts.bench.federation import BenchFederation, Shape
from scripts.bench.figures import BenchResult, Measurements, Threshold, ratio
from scripts.bench.job import BATCH, BenchScope, make_job
from scripts.bench.processes import cpu_seconds, pss_gb
from scripts.bench.sheet import PartResult

BAR = Threshold(must=1.3, goal=1.0)
SIZES = (20, 50, 100, 200)
ONCE = 1000
"""Measured in the first pass only: it takes as long as all the others together."""
HOSTS = 2
SKIPPED = 2
"""First rounds that are not timed: members join, files and buffers are new."""
UPDATES = 500
FEWEST_ROUNDS = 5
"""Every federation is timed for so many updates, and at least for so many rounds."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """One federation's cost per round, and per participant."""

    round_s: float
    coordinator_cpu_s: float
    memory_gb: float
    messages_up: float
    bytes_up: float
    bytes_down: float


def measure(scope: BenchScope) -> PartResult:
    """Measure every size in every pass, the largest once."""
    sizes = (3, 6) if scope.quick else SIZES
    base = sizes[0]
    loads: dict[int, list[Load]] = {size: [] for size in (*sizes, *(() if scope.quick else (ONCE,)))}
    for number in range(scope.passes):
        for size, found in loads.items():
            if size in sizes or number == 0:
                rounds = max(UPDATES // size, FEWEST_ROUNDS)
                found.append(_loaded(size, scope.folder, scope.sized(rounds, 2)))
    series = {size: _series(size, found) for size, found in loads.items()}
    findings = []
    for size, one in series.items():
        if size != base:
            beside = Measurements(name=series[base].name, unit="s", values=series[base].values[: len(one.values)])
            findings.append(_finding(size, base, one, beside))
    return PartResult(
        part="scale",
        findings=tuple(findings),
        series=tuple(series.values()),
        notes=tuple(_sentence(size, found) for size, found in loads.items()),
    )


def _finding(size: int, base: int, one: Measurements, beside: Measurements) -> BenchResult:
    what = f"barrier round of {size} hosted participants / {size / base:g} x that of {base}"
    return ratio(what, one, beside, BAR if size in (200, ONCE) else None, factor=size / base)


def _series(size: int, found: list[Load]) -> Measurements:
    return Measurements(name=f"{size} participants", unit="s", values=tuple(load.round_s for load in found))


def _sentence(size: int, found: list[Load]) -> str:
    load = found[0]
    return (
        f"{size} participants: {1e3 * load.round_s / size:.1f} ms a round and participant, of which the coordinator's "
        f"processor time {1e3 * load.coordinator_cpu_s / size:.2f} ms; {1e3 * load.memory_gb / size:.1f} MB, "
        f"{load.messages_up:.1f} messages up, {load.bytes_up / 1e3:.0f} kB up and {load.bytes_down / 1e3:.0f} kB down "
        f"per participant (and round); {load.memory_gb:.2f} GB in all."
    )


def _loaded(size: int, folder: Path, rounds: int) -> Load:
    place = folder / "federation"
    job = make_job(clients=size, samples=BATCH)
    try:
        with BenchFederation(job, place, Shape(per_process=-(-size // HOSTS))) as federation:
            first = federation.wait_for_rounds(SKIPPED)
            began = cpu_seconds(federation.pids[0])
            closed = federation.wait_for_rounds(len(first) + rounds)
            spent = cpu_seconds(federation.pids[0]) - began
            memory = pss_gb(federation.pids)
            done = len(closed) - len(first)
            up, down = bytes_per_round(federation.run_folder)
            return Load(
                round_s=statistics.median(late - early for early, late in pairwise(closed[len(first) - 1 :])),
                coordinator_cpu_s=spent / done,
                memory_gb=memory,
                messages_up=_messages_up(federation) / size / len(closed),
                bytes_up=up / size,
                bytes_down=down / size,
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)


def bytes_per_round(folder: Path) -> tuple[float, float]:
    """Return the bytes of a round after the first, up and down, of all participants together."""
    traffic = TrafficCounts(folder, key=lambda closed, _member, _round_no, way: (closed, way))
    traffic.read()
    up, down = (
        [size for (closed, of), size in traffic.counted.items() if closed > 0 and of == way] for way in ("in", "out")
    )
    return fmean(up), fmean(down)


def _messages_up(federation: BenchFederation) -> int:
    """Return the number of messages that all participants have sent, by their own records."""
    records = [federation.state(name) / "sent.jsonl" for name in federation.members]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in records)
