"""Compares the running mean and variance of BN layers with the statistics of the layers' inputs.

This is the basis of f-FedAP. A few rounds of FedBN are trained, then every client's delivered model is fed its own
training samples. Tensor work happens in a forked child, which writes a csv file, because this process may still have to
fork sweeps.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.colors import to_hex

from fedap_core.errors import InvalidInput
from fedap_core.nn.statistics import batch_norm_inputs, running_statistics
from participant.record.model_file import module_of, read_model
from participant.training.local import use_threads
from scripts.experiments.reproduce import judges
from scripts.experiments.reproduce.results import run_plans, written_rows
from scripts.experiments.reproduce.target import Cell, DataSetPlan, Findings, Job, Target
from scripts.report import charts, tables
from scripts.report.dots import Cloud, draw_clouds
from scripts.report.figures import new_figure
from scripts.run.cohort import make_cohort, model_file_name
from scripts.run.forked import run_in_child
from scripts.run.run_folder import RunFolder, write_text

ROUNDS = 20
HEADS = ("client", "layer", "channel", "input_mean", "running_mean", "input_variance", "running_variance")


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One channel of one BN layer of one client's model."""

    client: str
    layer: str
    input_mean: float
    running_mean: float
    input_variance: float
    running_variance: float


def cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """FedBN of the first seed, evaluated every round so that it is a separate run whose models are kept."""
    rounds = plan.base.rounds if plan.scale.quick or plan.scale.rounds else ROUNDS
    one = plan.cell("fedbn", rounds=rounds, evaluate_every=1)
    return (Cell(data=one.data, name=one.name, at=one.at, runs=one.runs[:1]),)


def show_running_stats(job: Job) -> Findings:
    """Show two panels, mean and variance: the first client's channels around the diagonal."""
    results = run_plans(replace(job, sweep=replace(job.sweep, keep_models=True)), cells)
    folder = results.measured[0].folders[0]
    channels = measure(folder, job.sweep.root)
    first = [channel for channel in channels if channel.client == channels[0].client]
    layers = list(dict.fromkeys(channel.layer for channel in first))
    scale = mpl.colormaps["viridis"]
    shades = {layer: to_hex(scale(0.15 + 0.7 * at / max(len(layers) - 1, 1))) for at, layer in enumerate(layers)}
    figure = new_figure(8.6, 4.3)
    for axes, (what, seen, kept) in zip(figure.subplots(1, 2), _PAIRS, strict=True):
        clouds = [
            Cloud(
                name=layer,
                colour=shades[layer],
                x=tuple(seen(channel) for channel in first if channel.layer == layer),
                y=tuple(kept(channel) for channel in first if channel.layer == layer),
            )
            for layer in layers
        ]
        draw_clouds(axes, clouds)
        axes.set_xlabel(f"{what} of the layer's inputs")
        axes.set_ylabel(f"running {what}")
        charts.within(axes)
    figure.suptitle(f"{job.title}, client {channels[0].client}", fontsize=10, x=0.01, ha="left")
    found = correlations(channels)
    claim = "Running mean and running variance correlate positively with the statistics of the layer's inputs."
    body = [[what, f"{np.median(list(r.values())):.3f}", f"{min(r.values()):.3f}", len(r)] for what, r in found.items()]
    return Findings(
        figure=figure,
        csv=written_rows([HEADS, *_numbered(channels)]),
        tables=(
            (
                "Correlation, one r for each client and layer",
                tables.plain_table(["", "median r", "lowest r", "number"], body),
            ),
        ),
        verdicts=(judges.correlates({what: list(r.values()) for what, r in found.items()}, claim=claim),),
        notes=(f"Models after {folder.settings.rounds} rounds of FedBN; inputs: each client's own training samples.",),
    )


Reader = Callable[[Channel], float]
_PAIRS: tuple[tuple[str, Reader, Reader], ...] = (
    ("mean", lambda channel: channel.input_mean, lambda channel: channel.running_mean),
    ("variance", lambda channel: channel.input_variance, lambda channel: channel.running_variance),
)


def correlations(channels: list[Channel]) -> dict[str, dict[tuple[str, str], float]]:
    """Return Pearson's r of running against input statistics, for mean and variance, by (client, layer)."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for what, seen, kept in _PAIRS:
        found[what] = {}
        for key in dict.fromkeys((channel.client, channel.layer) for channel in channels):
            mine = [channel for channel in channels if (channel.client, channel.layer) == key]
            pairs = np.array([[seen(channel), kept(channel)] for channel in mine]).T
            found[what][key] = float(np.corrcoef(pairs)[0, 1])
    return found


def measure(folder: RunFolder, root: Path) -> list[Channel]:
    """Measure every channel of every client's model of the last round, on its own training samples."""
    settings = folder.settings
    models = folder.models(settings.rounds - 1)
    if not models.is_dir():
        raise InvalidInput(
            "run",
            str(folder.path),
            f"the models of round {settings.rounds}",
            "They were not saved: choose another --out.",
        )
    cohort = make_cohort(settings.cohort, settings.seed)
    path = root / f".running-stats-{settings.identity}.csv"

    def work() -> None:
        use_threads(settings.compute.threads)
        channels = []
        for client in cohort.clients:
            spec, state, _ = read_model(models / model_file_name(client.name))
            module = module_of(spec, state)
            samples = cohort.samples(client, torch.device("cpu"))["train"]
            seen = batch_norm_inputs(module, samples.inputs(settings.compute.evaluation_batch_size))
            kept = running_statistics(module, samples=len(samples))
            for inputs, running in zip(seen.layers, kept.layers, strict=True):
                numbers = zip(inputs.mean, running.mean, inputs.variance, running.variance, strict=True)
                channels += [_channel(client.name, inputs.name, [float(value) for value in row]) for row in numbers]
        write_text(path, written_rows([HEADS, *_numbered(channels)]))

    run_in_child(work)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    path.unlink()
    return [_channel(row[0], row[1], [float(value) for value in row[3:]]) for row in rows]


def _channel(client: str, layer: str, values: list[float]) -> Channel:
    return Channel(
        client=client,
        layer=layer,
        input_mean=values[0],
        running_mean=values[1],
        input_variance=values[2],
        running_variance=values[3],
    )


def _numbered(channels: list[Channel]) -> list[list[object]]:
    rows: list[list[object]] = []
    for number, one in enumerate(channels):
        before = rows[-1] if number else None
        place = int(str(before[2])) + 1 if before and before[:2] == [one.client, one.layer] else 0
        rows.append(
            [one.client, one.layer, place, *(repr(v) for v in
             (one.input_mean, one.running_mean, one.input_variance, one.running_variance))]
        )  # fmt: skip
    return rows


TARGETS = (
    Target(
        name="running-stats",
        where="Figure 4",
        shows="Running mean and variance of BN layers against the statistics of their inputs",
        headline="Running statistics of batch normalisation",
        needs=("organamnist",),
        work=show_running_stats,
        cells=cells,
        stated=False,
    ),
)
