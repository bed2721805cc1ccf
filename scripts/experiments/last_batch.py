"""Examines why a last batch of a few samples hurts: is it its step, or the batch-norm statistics that it leaves?

Every client trains alone, in a plain PyTorch loop, under five treatments of the last batch; nothing else differs. After
every epoch the model is evaluated on the test half as it is and, on a copy, with batch norm re-estimated on the
training half. `python -m scripts.experiments.last_batch --help` lists the options.
"""

from __future__ import annotations

import copy
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fedap_core.errors import exit_on_invalid_input
from fedap_core.nn.batchnorm import batch_norm_layers
from fedap_core.nn.evaluation import evaluate
from fedap_core.nn.reestimation import reestimate_batch_norm
from fedap_core.nn.samples import Samples, batch_bounds
from fedap_core.randomness import derive_seed
from participant.record.model_file import make_initial, module_of
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import CohortSettings

TREATMENTS = {
    "reference": "full batches, then the rest",
    "no step": "the rest updates batch-norm statistics only",
    "no statistics": "the rest makes its step and leaves the statistics alone",
    "dropped": "the rest is left out",
    "even": "batches of nearly equal size",
}


@dataclass(frozen=True, kw_only=True)
class EpochCurve:
    """One client under one treatment: test accuracy after every epoch, as is and with batch norm re-estimated."""

    client: str
    rest: int
    treatment: str
    as_is: tuple[float, ...]
    reestimated: tuple[float, ...]


def worst_dip(curve: tuple[float, ...]) -> float:
    """Return how far the worst epoch of the second half is below that half's median."""
    half = curve[len(curve) // 2 :]
    return statistics.median(half) - min(half)


def train_client(
    cohort: Cohort, number: int, *, treatment: str, epochs: int, batch_size: int, rate: float, seed: int
) -> EpochCurve:
    """Train one client alone, from the seed's initial model."""
    client, data = cohort.clients[number], cohort.data
    spec, state = make_initial(
        "lenet5", input_shape=data.input_shape, classes=data.classes, preprocessing=data.preprocessing, seed=seed
    )
    model = module_of(spec, state)
    samples = cohort.samples(client, torch.device("cpu"))
    train, test = samples["train"], samples["test"]
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    as_is, reestimated = [], []
    for epoch in range(epochs):
        order_seed = derive_seed(seed, participant=client.name, round_no=epoch, purpose="order")
        _epoch(model, optimiser, train, treatment, batch_size, order_seed)
        as_is.append(_accuracy(model, test, len(data.classes)))
        fitted = copy.deepcopy(model)
        reestimate_batch_norm(fitted, train.inputs(256))
        reestimated.append(_accuracy(fitted, test, len(data.classes)))
    rest = len(train) % batch_size
    return EpochCurve(
        client=client.name, rest=rest, treatment=treatment, as_is=tuple(as_is), reestimated=tuple(reestimated)
    )


def _epoch(
    model: nn.Module, optimiser: torch.optim.Optimizer, train: Samples, treatment: str, batch_size: int, seed: int
) -> None:
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    bounds = batch_bounds(len(train), batch_size, "even" if treatment == "even" else "reference")
    model.train()
    for number, (start, stop) in enumerate(bounds):
        is_rest = treatment != "even" and number == len(bounds) - 1
        if is_rest and treatment == "dropped":
            continue
        picked = order[start:stop]
        kept = _statistics(model) if is_rest and treatment == "no statistics" else {}
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(train.prepare(train.x[picked])), train.y[picked]).backward()  # type: ignore[no-untyped-call]
        if not (is_rest and treatment == "no step"):
            optimiser.step()
        if kept:
            model.load_state_dict(kept, strict=False)


def _statistics(model: nn.Module) -> dict[str, Tensor]:
    """Copy the running statistics of every batch-norm layer."""
    return {
        f"{name}.{key}": value.clone()
        for name, layer in batch_norm_layers(model)
        for key, value in layer.named_buffers()
    }


def _accuracy(model: nn.Module, samples: Samples, classes: int) -> float:
    return 100.0 * evaluate(model, samples, classes=classes).accuracy


def table_of(curves: list[EpochCurve]) -> Table:
    """Return a table with one row per treatment: medians over clients."""
    table = Table(title="Test accuracy in %, second half of the epochs: median over clients")
    for title in (
        "treatment of the rest",
        "median",
        "worst dip",
        "median, BN re-estimated",
        "worst dip, BN re-estimated",
    ):
        table.add_column(title)
    for treatment, meaning in TREATMENTS.items():
        found = [curve for curve in curves if curve.treatment == treatment]
        if not found:
            continue
        row = []
        for kind in ("as_is", "reestimated"):
            halves = [getattr(curve, kind)[len(curve.as_is) // 2 :] for curve in found]
            row += [statistics.median(map(statistics.median, halves))]
            row += [statistics.median(worst_dip(getattr(curve, kind)) for curve in found)]
        table.add_row(f"{treatment}: {meaning}", *(f"{value:.1f}" for value in row))
    return table


def main(
    data: Annotated[str, typer.Option(help="An image data set with 28x28 pixels.")] = "organamnist",
    most: Annotated[int, typer.Option(help="Only clients whose rest has at most so many samples.", min=2)] = 4,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0,1,2",
    epochs: Annotated[int, typer.Option(min=4)] = 60,
    batch_size: Annotated[int, typer.Option(min=2)] = 32,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.01,
    out: Annotated[Path | None, typer.Option(help="JSON file for every curve.")] = None,
) -> None:
    """Train every client with a small rest alone, under each treatment of that rest."""
    torch.set_num_threads(1)
    curves: list[EpochCurve] = []
    for seed in map(int, seeds.split(",")):
        cohort = make_cohort(CohortSettings(data=data), seed)
        rests = [len(client.splits["train"]) % batch_size for client in cohort.clients]
        for number in [number for number, rest in enumerate(rests) if 2 <= rest <= most]:
            curves += [
                train_client(
                    cohort, number, treatment=treatment, epochs=epochs, batch_size=batch_size, rate=rate, seed=seed
                )
                for treatment in TREATMENTS
            ]
    Console().print(table_of(curves))
    if out is not None:
        out.write_text(json.dumps([asdict(curve) for curve in curves], indent=1) + "\n", encoding="utf-8")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    exit_on_invalid_input(app, interrupted="interrupted")
