"""Measures processor time of the coordinator per round: 20 participants, LeNet-5, plain and encrypted lines.

Participants train one batch only, so that many rounds fit into a measurement; the coordinator's work in a round does
not depend on how long its members train. A round of the plain loop over the standard job is measured for comparison.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from scripts.bench.federation import BenchFederation, Shape
from scripts.bench.figures import Threshold, quantity, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BATCH, BenchJob, BenchScope, make_job, standard_job
from scripts.bench.plain import plain_bodies
from scripts.bench.processes import TICK_S, cpu_seconds
from scripts.bench.sheet import PartResult
from scripts.bench.workers import WorkerProcesses

PLAIN, CURVE, LOOP = "coordinator, plain lines", "coordinator, CURVE", "A1: plain loop over 20 x 512 samples"
SKIPPED = 3
"""First rounds that are not counted: members join, files are made."""


def measure(scope: BenchScope) -> PartResult:
    """Measure CPU milliseconds per round."""
    clients, rounds = scope.sized(20, 3), scope.sized(30, 2)
    job = make_job(clients=clients, samples=BATCH)
    with WorkerProcesses(plain_bodies(standard_job(scope), 1)) as loop:
        loop.seconds_per_round(1)
        contenders = {
            PLAIN: _cpu_ms(job, scope.folder, Shape(per_process=-(-clients // 2)), rounds),
            CURVE: _cpu_ms(job, scope.folder, Shape(per_process=-(-clients // 2), curve=True), rounds),
            LOOP: lambda: 1e3 * loop.seconds_per_round(1),
        }
        found = interleave(contenders, passes=scope.passes, unit="ms")
    return PartResult(
        part="coordinator",
        findings=(
            quantity("CPU per round, 20 participants, LeNet-5", found[PLAIN], Threshold(must=40.0, goal=15.0)),
            quantity("CPU per round, the same with CURVE", found[CURVE], Threshold(must=80.0, goal=15.0)),
            ratio("CPU per round / plain training round (A1)", found[PLAIN], found[LOOP]),
            ratio("CPU per round, CURVE / plain lines", found[CURVE], found[PLAIN]),
        ),
        series=tuple(found.values()),
    )


def _cpu_ms(job: BenchJob, folder: Path, shape: Shape, rounds: int) -> Callable[[], float]:
    def one_pass() -> float:
        place = folder / "federation"
        try:
            with BenchFederation(job, place, shape) as federation:
                first = len(federation.wait_for_rounds(SKIPPED))
                began = cpu_seconds(federation.pids[0])
                last = len(federation.wait_for_rounds(first + rounds))
                spent = max(cpu_seconds(federation.pids[0]) - began, TICK_S)
                return 1e3 * spent / (last - first)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return one_pass
