"""Describes the data: Table 1, and a figure of every client's samples per class. Nothing is trained."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from participant.data import load_dataset
from participant.data.base import DataOptions, Dataset
from scripts.experiments.reproduce import judges, paper
from scripts.experiments.reproduce.data_sets import DATA_SETS
from scripts.experiments.reproduce.results import TargetResults
from scripts.experiments.reproduce.target import DataSetPlan, Findings, Job, Target
from scripts.report import tables
from scripts.report.charts import draw_counts
from scripts.report.figures import new_figure, tidy
from scripts.run.cohort import make_cohort

FIVE = ("pamap2", "covid", "organamnist", "organcmnist", "organsmnist")
SPLIT_ORDER = ("organamnist", "organcmnist", "organsmnist", "pamap2", "covid")
"""Order of the panels in the paper's figure."""
_COLUMNS = 3
_BAR = "#1f6fb2"
_PAMAP2_NOTE = (
    "For PAMAP2 the paper counts raw time steps of 18 activities; here a sample is a window of 2 s, and the ten "
    "activities with most windows are kept, as the paper's experiments keep ten."
)


def show_datasets(job: Job, _results: TargetResults) -> Findings:
    """Show type, classes and samples of every available set beside the paper's; class sizes as bars."""
    loaded = [(plan, load_dataset(plan.data.name, _options(plan))) for plan in job.plans]
    body, rows = [], [["data", "type", "classes", "samples", "groups", "shape", "paper_classes", "paper_samples"]]
    for plan, data in loaded:
        stated = paper.DATA_TABLE.get(plan.data.name)
        groups = len(np.unique(data.group))
        shape = "×".join(str(size) for size in data.input_shape)
        theirs = ["", ""] if stated is None else [str(stated.classes), str(stated.samples)]
        numbers = [str(len(data.classes)), str(len(data)), str(groups), shape]
        rows.append([plan.data.name, plan.data.kind, *numbers, *theirs])
        shown = ["–", "–"] if stated is None else [f"{stated.classes}", f"{stated.samples:,}"]
        kind = plan.data.kind.capitalize()
        body.append([plan.data.title, kind, len(data.classes), f"{len(data):,}", f"{groups:,}", shape, *shown])
    figure, panels = _panels(len(loaded), 3.6, 2.7, job.title)
    for axes, (plan, data) in zip(panels, loaded, strict=True):
        axes.bar(range(len(data.classes)), np.bincount(data.y, minlength=len(data.classes)), color=_BAR, width=0.8)
        axes.set_title(plan.data.title, fontsize=9, loc="left")
        axes.set_xticks(range(0, len(data.classes), 1 if len(data.classes) <= 12 else 2))
        axes.set_xlabel("class")
        axes.set_ylabel("samples")
        tidy(axes)
    body += [
        [DATA_SETS[row.data].title, row.kind, *["not here"] * 4, f"{row.classes}", f"{row.samples:,}"]
        for row in paper.DATA_TABLE.values()
        if row.data not in {plan.data.name for plan, _ in loaded}
    ]
    heads = ["data set", "type", "classes", "samples", "groups", "one sample", "classes, paper", "samples, paper"]
    return Findings(
        figure=figure,
        csv=tables.csv_text(rows),
        tables=(("The data sets", tables.plain_table(heads, body)),),
        notes=(
            "A group is what is never divided: a recording, or a patient; where samples stand alone, each is one.",
            _PAMAP2_NOTE,
        ),
    )


def _panels(count: int, width: float, height: float, title: str) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, in rows of up to three. width, height: of a panel, in inches."""
    columns = min(count, _COLUMNS)
    lines = -(-count // columns)
    figure = new_figure(width * columns, height * lines + 0.3, title)
    panels = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for unused in panels[count:]:
        unused.set_visible(False)
    return figure, panels[:count]


def _options(plan: DataSetPlan) -> DataOptions:
    return DataOptions(options=plan.base.cohort.data_options)


def show_split(job: Job, _results: TargetResults) -> Findings:
    """Show a panel per data set: clients along x, classes along y, a dot's area is the number of samples."""
    order = {name: at for at, name in enumerate(SPLIT_ORDER)}
    plans = sorted(job.plans, key=lambda plan: order.get(plan.data.name, len(order)))
    cohorts = [make_cohort(plan.base.cohort, plan.base.seed) for plan in plans]
    figure, panels = _panels(len(plans), 4.2 if len(plans) > 1 else 5.4, 3.3, job.title)
    rows: list[list[object]] = [["data", "seed", "client", "class", "samples"]]
    verdicts, body = [], []
    claim = "The clients' class distributions are very inconsistent."
    for axes, plan, cohort in zip(panels, plans, cohorts, strict=True):
        counts = cohort.class_counts()
        draw_counts(axes, counts)
        axes.set_title(plan.data.title, fontsize=9, loc="left")
        for client, per_class in zip(cohort.clients, counts, strict=True):
            rows += [
                [plan.data.name, plan.base.seed, client.name, name, count]
                for name, count in zip(cohort.data.classes, per_class, strict=True)
            ]
        verdicts.append(judges.uneven_clients(counts, claim=claim, where=f"{plan.data.title}: "))
        body.append([plan.data.title, *_shape(cohort.data, counts)])
    heads = ["data set", "clients", "classes", "samples of a client", "classes of a client"]
    return Findings(
        figure=figure,
        csv=tables.csv_text(rows),
        tables=(("The division", tables.plain_table(heads, body)),),
        verdicts=tuple(verdicts),
        notes=("Dirichlet shares within pairs of clients, so that all clients have about as many samples.",),
    )


def _shape(data: Dataset, counts: list[list[int]]) -> list[object]:
    sizes = [sum(client) for client in counts]
    kinds = [sum(count > 0 for count in client) for client in counts]
    return [len(counts), len(data.classes), f"{min(sizes)} to {max(sizes)}", f"{min(kinds)} to {max(kinds)}"]


TARGETS = (
    Target(
        name="datasets",
        where="Table 1",
        shows="The data sets: type, classes, samples",
        headline="The data sets",
        needs=FIVE,
        work=show_datasets,
        divides=False,
    ),
    Target(
        name="split",
        where="Figure 5",
        shows="Samples per class and client, as a dot plot",
        headline="Samples per class and client",
        needs=SPLIT_ORDER,
        work=show_split,
    ),
)
