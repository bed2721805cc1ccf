"""Compares the running mean and variance of BN layers with the statistics of the layers' inputs.

This is the basis of f-FedAP. A few rounds of FedBN are trained, then every client's delivered model is fed its own
training samples. Tensor work happens in a forked child, because this process may still have to fork sweeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.colors import to_hex

from fedap_core.errors import InvalidInput
from fedap_core.nn.statistics import batch_norm_inputs, running_statistics
from participant.record.model_file import module_of, read_model
from participant.training.local import use_threads
from scripts.experiments.reproduce import judges
from scripts.experiments.reproduce.results import Cell, TargetResults
from scripts.experiments.reproduce.target import DataSetPlan, Findings, Job, Target
from scripts.report import charts, tables
from scripts.report.figures import new_figure
from scripts.run.cohort import make_cohort, model_file_name
from scripts.run.forked import run_in_child
from scripts.run.run_folder import RunFolder

ROUNDS = 20
_PAIRS = ("mean", "variance")


class Channel(NamedTuple):
    """One channel of one BN layer of one client's model; a line of the csv file."""

    client: str
    layer: str
    channel: int
    input_mean: float
    running_mean: float
    input_variance: float
    running_variance: float

    def pair(self, what: str) -> tuple[float, float]:
        """Return mean or variance of the inputs, and the running one."""
        return getattr(self, f"input_{what}"), getattr(self, f"running_{what}")


def cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """FedBN of the first seed, evaluated every round so that it is a separate run whose models are kept."""
    rounds = plan.base.rounds if plan.scale.quick or plan.scale.rounds else ROUNDS
    one = plan.cell("fedbn", rounds=rounds, evaluate_every=1)
    return (replace(one, runs=one.runs[:1]),)


def show_running_stats(job: Job, results: TargetResults) -> Findings:
    """Show two panels, mean and variance: the first client's channels around the diagonal."""
    folder = results.measured[0].folders[0]
    channels = measure(folder)
    first = [channel for channel in channels if channel.client == channels[0].client]
    layers = list(dict.fromkeys(channel.layer for channel in first))
    scale = mpl.colormaps["viridis"]
    shades = {layer: to_hex(scale(0.15 + 0.7 * at / max(len(layers) - 1, 1))) for at, layer in enumerate(layers)}
    figure = new_figure(8.6, 4.3)
    for axes, what in zip(figure.subplots(1, 2), _PAIRS, strict=True):
        clouds = []
        for layer in layers:
            x, y = zip(*(channel.pair(what) for channel in first if channel.layer == layer), strict=True)
            clouds.append(charts.Cloud(name=layer, colour=shades[layer], x=x, y=y))
        charts.draw_clouds(axes, clouds)
        axes.set_xlabel(f"{what} of the layer's inputs")
        axes.set_ylabel(f"running {what}")
        charts.within(axes)
    figure.suptitle(f"{job.title}, client {channels[0].client}", fontsize=10, x=0.01, ha="left")
    found = correlations(channels)
    claim = "Running mean and running variance correlate positively with the statistics of the layer's inputs."
    body = [[what, f"{np.median(list(r.values())):.3f}", f"{min(r.values()):.3f}", len(r)] for what, r in found.items()]
    return Findings(
        figure=figure,
        csv=tables.csv_text([Channel._fields, *channels]),
        tables=(
            (
                "Correlation, one r for each client and layer",
                tables.plain_table(["", "median r", "lowest r", "number"], body),
            ),
        ),
        verdicts=(judges.correlates({what: list(r.values()) for what, r in found.items()}, claim=claim),),
        notes=(f"Models after {folder.settings.rounds} rounds of FedBN; inputs: each client's own training samples.",),
    )


def correlations(channels: list[Channel]) -> dict[str, dict[tuple[str, str], float]]:
    """Return Pearson's r of running against input statistics, for mean and variance, by (client, layer)."""
    found: dict[str, dict[tuple[str, str], float]] = {what: {} for what in _PAIRS}
    for key in dict.fromkeys((channel.client, channel.layer) for channel in channels):
        mine = [channel for channel in channels if (channel.client, channel.layer) == key]
        for what, of in found.items():
            of[key] = float(np.corrcoef(np.array([channel.pair(what) for channel in mine]).T)[0, 1])
    return found


def measure(folder: RunFolder) -> list[Channel]:
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

    def work() -> list[Channel]:
        use_threads(settings.compute.threads)
        channels: list[Channel] = []
        for client in cohort.clients:
            spec, state, _ = read_model(models / model_file_name(client.name))
            module = module_of(spec, state)
            samples = cohort.samples(client, torch.device("cpu"))["train"]
            seen = batch_norm_inputs(module, samples.inputs(settings.compute.evaluation_batch_size))
            kept = running_statistics(module, samples=len(samples))
            for inputs, running in zip(seen.layers, kept.layers, strict=True):
                numbers = zip(inputs.mean, running.mean, inputs.variance, running.variance, strict=True)
                channels += [Channel(client.name, inputs.name, at, *map(float, row)) for at, row in enumerate(numbers)]
        return channels

    return [Channel(*row) for row in run_in_child(work)]


TARGETS = (
    Target(
        name="running-stats",
        where="Figure 4",
        shows="Running mean and variance of BN layers against the statistics of their inputs",
        headline="Running statistics of batch normalisation",
        needs=("organamnist",),
        work=show_running_stats,
        cells=cells,
        keep_models=True,
        stated=False,
    ),
)
