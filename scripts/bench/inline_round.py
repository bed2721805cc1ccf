"""Measures a round of the inline engine against a plain PyTorch loop over the same models, side by side.

The plain loop is what a researcher writes by hand: float tensors sliced by a permutation, torch.optim.SGD, no mixing,
no bookkeeping. Both run in one process with one thread; passes alternate, and the ratio of medians is printed.
Run: python -m scripts.bench.inline_round
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.aggregation import mix
from fedap_core.strategies import Evidence, Measure
from participant.local import LocalPlan
from participant.model_file import make_initial, module_of, write_model
from scripts.engines.pool import InlinePool, make_clients
from scripts.experiments.cohort import Cohort, make_cohort
from scripts.experiments.settings import CohortSettings, RunSettings

SAMPLES = 1024  # half of them train: 512 a client, 16 steps of 32


def main(
    passes: Annotated[int, typer.Option(help="Alternating passes of each.")] = 7,
    clients: Annotated[int, typer.Option()] = 20,
) -> None:
    """Print the ratio engine / plain loop."""
    torch.set_num_threads(1)
    options = {"samples": str(SAMPLES * clients), "shape": "1x28x28", "classes": "11"}
    cohort_settings = CohortSettings(data="synthetic", data_options=options, partition="iid", clients=clients)
    cohort = make_cohort(cohort_settings, 0)
    settings = RunSettings(cohort=cohort_settings, model="lenet5", algorithm="fedbn")
    with tempfile.TemporaryDirectory() as folder:
        engine = _engine_round(settings, cohort, Path(folder) / "initial.safetensors")
    contenders = {"plain loop": _plain_round(cohort), "inline engine": engine}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(passes + 1):
        for name, one_round in contenders.items():
            began = time.perf_counter()
            one_round(number)
            if number:  # the first pass warms up
                times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        spread = (max(values) - min(values)) / medians[name]
        print(f"{name}: {medians[name]:.3f} s a round (median of {passes}, spread {100 * spread:.0f} %)")
    print(f"ratio: {medians['inline engine'] / medians['plain loop']:.3f}")


def _engine_round(settings: RunSettings, cohort: Cohort, initial: Path) -> Callable[[int], None]:
    data = cohort.data
    spec, state = make_initial(
        settings.model, input_shape=data.input_shape, classes=data.classes, preprocessing=data.preprocessing, seed=0
    )
    write_model(initial, spec, state)
    plan = LocalPlan(strategy=settings.strategy(), sgd=settings.sgd(), seed=0)
    clients = make_clients(
        cohort, cohort.clients, start=initial, plan=plan, threads=1, device="cpu", buffers=[None] * len(cohort.clients)
    )
    pool = InlinePool(clients, spec)
    evidence = Evidence(counts=tuple(client.train_samples for client in clients))
    weights = settings.strategy().mixing(evidence).weights

    def one_round(number: int) -> None:
        pool.train(number, Measure.NONE)
        mix(weights, pool.rows, pool.rows)

    return one_round


def _plain_round(cohort: Cohort) -> Callable[[int], None]:
    data = cohort.data
    spec, state = make_initial(
        "lenet5", input_shape=data.input_shape, classes=data.classes, preprocessing=data.preprocessing, seed=0
    )
    trainees: list[tuple[nn.Module, torch.optim.SGD, Tensor, Tensor]] = []
    for client in cohort.clients:
        samples = cohort.gather(client.splits["train"], torch.device("cpu"))
        module = module_of(spec, state).train()
        optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
        trainees.append((module, optimiser, samples.prepare(samples.x), samples.y))

    generator = torch.Generator().manual_seed(0)

    def one_round(_number: int) -> None:
        for module, optimiser, x, y in trainees:
            order = torch.randperm(len(y), generator=generator)
            for start in range(0, len(y), 32):
                chosen = order[start : start + 32]
                optimiser.zero_grad()
                F.cross_entropy(module(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()

    return one_round


if __name__ == "__main__":
    typer.run(main)
