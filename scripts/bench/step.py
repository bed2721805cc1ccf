"""Measures a training step against the plain loop's, per model, and what re-estimating batch norm costs beside it: one
client, one process, one thread each.

The batch size is the job's 32; whole epochs are timed, so drawing an order and cutting batches count on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.bench.figures import BenchResult, Measurements, Threshold, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BATCH, BenchJob, BenchScope, make_job
from scripts.bench.ours import client_body, reestimation_body, same_model_body
from scripts.bench.plain import plain_bodies
from scripts.bench.sheet import PartResult
from scripts.bench.workers import WorkerProcesses

BARS = {"lenet5": Threshold(must=1.05, goal=0.80), "har-cnn": Threshold(must=1.05), "alexnet": Threshold(must=1.05)}
"""LeNet-5's bar is that of the inline engine, where a step is nearly everything; no model may be slower than plain."""


def jobs(scope: BenchScope) -> dict[str, tuple[BenchJob, int]]:
    """Return for each model a job of one client, and how many epochs make a pass (about a second of work)."""
    samples = BATCH * scope.sized(16, 2)
    windows = make_job(clients=1, samples=samples, model="har-cnn", shape="27x200", classes=10)
    x_rays = make_job(clients=1, samples=BATCH, model="alexnet", shape="1x64x64", classes=3)
    return {
        "lenet5": (make_job(clients=1, samples=samples), scope.sized(12, 1)),
        "har-cnn": (windows, scope.sized(8, 1)),
        "alexnet": (x_rays, scope.sized(3, 1)),
    }


def measure(scope: BenchScope) -> PartResult:
    """Measure our step against the plain step of the same architecture in stock layers."""
    findings: list[BenchResult] = []
    series: list[Measurements] = []
    for model, (job, epochs) in jobs(scope).items():
        found = _compared(model, job, epochs, scope.passes)
        plain, ours, same, reestimated = found.values()
        findings.append(ratio(f"{model}: training step / plain step", ours, plain, BARS[model]))
        findings.append(ratio(f"{model}: training step / plain loop over the same layers", ours, same))
        findings.append(ratio(f"{model}: re-estimating batch norm / training epoch", reestimated, ours))
        series += found.values()
    return PartResult(part="step", findings=tuple(findings), series=tuple(series))


def _compared(model: str, job: BenchJob, epochs: int, passes: int) -> dict[str, Measurements]:
    steps = epochs * -(-len(job.cohort.clients[0].splits["train"]) // BATCH)

    def timed(workers: WorkerProcesses) -> Callable[[], float]:
        return lambda: 1e3 * workers.seconds_per_round(epochs) * epochs / steps

    with (
        WorkerProcesses(plain_bodies(job, 1)) as plain,
        WorkerProcesses([client_body(job)]) as ours,
        WorkerProcesses([same_model_body(job)]) as same,
        WorkerProcesses([reestimation_body(job)]) as reestimated,
    ):
        contenders = {
            f"{model} plain": timed(plain),
            f"{model} ours": timed(ours),
            f"{model} plain loop, our layers": timed(same),
            f"{model} re-estimation": timed(reestimated),
        }
        return interleave(contenders, passes=passes, unit="ms", warm_up=1)
