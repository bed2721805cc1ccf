"""Measures a round of local training by all clients: this project's engines against plain PyTorch loops.

20 clients, LeNet-5 with batch norm, 512 samples each, batch 32, one epoch, no evaluation except in the row about it. A1
is the plain loop in one process, A2 the same in two processes with half of the clients each. Federations are restarted
in every pass, and only rounds after the first ones are timed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from scripts.bench.federation import BenchFederation, Shape
from scripts.bench.figures import BenchResult, Measurements, Threshold, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchJob, BenchScope, standard_job
from scripts.bench.machine import cores
from scripts.bench.ours import inline_body, same_model_body
from scripts.bench.page_reader import page_with_a_reader
from scripts.bench.plain import plain_bodies
from scripts.bench.sheet import PartResult
from scripts.bench.workers import WorkerProcesses

A1, A2, SAME = "A1: plain loop", "A2: plain loop, 2 processes", "plain loop over our layers"
INLINE, INLINE_2 = "inline", "inline, 2 workers"
DURABLE, FORGETFUL, CONTINUOUS = "processes", "processes, journal not durable", "processes, continuous"
EVALUATED = "processes, every round evaluated"
WATCHED = "processes, a page and a reader"
SKIPPED = 2
"""First rounds of a federation that are not timed: participants connect and memory is touched for the first time."""

SHAPES = {DURABLE: Shape(), FORGETFUL: Shape(durable=False), CONTINUOUS: Shape(mode="continuous")}


def measure(scope: BenchScope) -> PartResult:
    """Measure all engines in turn, pass after pass."""
    job, rounds = standard_job(scope), scope.sized(4, 1)
    with ExitStack() as stack:
        groups = {
            A1: WorkerProcesses(plain_bodies(job, 1)),
            A2: WorkerProcesses(plain_bodies(job, 2)),
            SAME: WorkerProcesses([same_model_body(job)]),
            INLINE: WorkerProcesses([inline_body(job, scope.folder)]),
            INLINE_2: WorkerProcesses([inline_body(job, scope.folder, workers=2)]),
        }
        for workers in groups.values():
            stack.enter_context(workers)
            workers.seconds_per_round(1)  # warm
        contenders: dict[str, Callable[[], float]] = {
            name: _resident(workers, rounds) for name, workers in groups.items()
        }
        contenders |= {name: _started(job, scope.folder, shape, rounds) for name, shape in SHAPES.items()}
        contenders[EVALUATED] = _started(standard_job(scope, evaluated=True), scope.folder, Shape(), rounds)
        contenders[WATCHED] = _started(job, scope.folder, Shape(), rounds, watched=True)
        found = interleave(contenders, passes=scope.passes, unit="s")
    return PartResult(part="round", findings=_findings(found), series=tuple(found.values()), notes=_notes())


def _findings(found: dict[str, Measurements]) -> tuple[BenchResult, ...]:
    plain, both = found[A1], found[A2]
    return (
        ratio(
            "20 participant processes, barrier, durable journal / A2",
            found[DURABLE],
            both,
            Threshold(must=1.10, goal=0.88),
        ),
        ratio("20 participant processes, continuous / A2", found[CONTINUOUS], both),
        ratio(
            "every round evaluated on as many samples as train / no evaluation",
            found[EVALUATED],
            found[DURABLE],
            Threshold(must=1.30, goal=1.15),
        ),
        ratio(
            "durable journal / journal not durable", found[DURABLE], found[FORGETFUL], Threshold(must=1.05, goal=1.02)
        ),
        ratio("watched on its page / not watched", found[WATCHED], found[DURABLE], Threshold(must=1.05, goal=1.00)),
        ratio("inline engine, one process / A1", found[INLINE], plain, Threshold(must=1.05, goal=0.80)),
        ratio("inline engine, one process / plain loop over the same layers", found[INLINE], found[SAME]),
        ratio("inline engine, two workers / A2", found[INLINE_2], both),
        ratio("A2 / A1", both, plain),
    )


def _notes() -> tuple[str, ...]:
    return () if cores() == 2 else (f"The limits are set for 2 cores; this machine has {cores()}.",)


def _resident(workers: WorkerProcesses, rounds: int) -> Callable[[], float]:
    return lambda: workers.seconds_per_round(rounds)


def _started(job: BenchJob, folder: Path, shape: Shape, rounds: int, *, watched: bool = False) -> Callable[[], float]:
    def one_pass() -> float:
        place = folder / "federation"
        try:
            with BenchFederation(job, place, shape) as federation, ExitStack() as stack:
                first = 0
                if watched:
                    stack.enter_context(page_with_a_reader(federation.run_folder))
                    first = len(federation.closed_rounds())
                closed = federation.wait_for_rounds(first + SKIPPED + rounds)
            return (closed[first + SKIPPED + rounds - 1] - closed[first + SKIPPED - 1]) / rounds
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return one_pass
