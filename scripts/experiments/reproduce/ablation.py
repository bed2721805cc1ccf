"""Measures what each ingredient is worth: weighting, local batch normalisation, and the three ways to compute W."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from string import ascii_lowercase

from scripts.experiments.reproduce import judges
from scripts.experiments.reproduce.judges import ClaimVerdict
from scripts.experiments.reproduce.results import Cell, TargetResults
from scripts.experiments.reproduce.shown import clients_table, means_table
from scripts.experiments.reproduce.target import DataSetPlan, Findings, Job, Target, cells_of
from scripts.report import charts
from scripts.report.algorithms import colour, spelled
from scripts.report.figures import new_figure

BOTH = ("pamap2", "covid")
VARIANTS = ("fedavg", "fedbn", "fedap", "d-fedap", "f-fedap")
_SBN_COLOUR = "#5c7a99"
_TITLE_WIDTH = 14
"""Letters per line of a data set's name under its bars."""


def bn_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """The same W with BN layers shared and kept local."""
    return (plan.cell("fedap-sbn", name="SBN"), plan.cell("fedap", name="LBN"))


def show_weighting(job: Job, results: TargetResults) -> Findings:
    """Show (a) means of FedBN and FedAP per data set, then a panel with every client of each set."""
    verdicts: list[ClaimVerdict] = []
    for plan in job.plans:
        bn, ap = (results.one(plan.data.name, name) for name in ("fedbn", "fedap"))
        claim = "With weighting (FedAP) the mean accuracy is much better than without (FedBN)."
        where = f"{plan.data.title}: "
        verdicts.append(judges.much_better(ours=("FedAP", ap.mean), other=("FedBN", bn.mean), claim=claim, where=where))
        claim = "FedAP is better than FedBN on all clients."
        verdicts.append(judges.better_for_everyone(ap.clients, bn.clients, claim=claim, where=where))
    names = {"fedbn": ("FedBN", colour("fedbn")), "fedap": ("FedAP", colour("fedap"))}
    return _mean_and_clients(job, results, names, verdicts)


def show_bn(job: Job, results: TargetResults) -> Findings:
    """Show (a) means with shared and with local BN per data set, then a panel with every client of each set."""
    verdicts = []
    for plan in job.plans:
        shared, local = (results.one(plan.data.name, name) for name in ("SBN", "LBN"))
        claim = "Keeping batch normalisation local (LBN) is slightly better than sharing it (SBN)."
        where = f"{plan.data.title}: "
        verdicts.append(
            judges.slightly_better(ours=("LBN", local.mean), other=("SBN", shared.mean), claim=claim, where=where)
        )
    names = {"SBN": ("SBN", _SBN_COLOUR), "LBN": ("LBN", colour("fedap"))}
    return _mean_and_clients(job, results, names, verdicts)


def _mean_and_clients(
    job: Job, results: TargetResults, names: dict[str, tuple[str, str]], verdicts: Sequence[ClaimVerdict]
) -> Findings:
    """Show (a) means, then a panel of clients and a table per data set. names: cell -> (shown name, colour)."""
    sets = [plan.data for plan in job.plans]
    figure = new_figure(9.8, 1.1 + 2.7 * len(sets), job.title)
    grid = figure.add_gridspec(len(sets), 2, width_ratios=(1.0, 1.7))
    left = figure.add_subplot(grid[:, 0])
    bars = [
        charts.Series(
            name=shown,
            colour=shade,
            values=tuple(results.one(data.name, key).mean for data in sets),
            deviations=tuple(results.one(data.name, key).deviation for data in sets),
        )
        for key, (shown, shade) in names.items()
    ]
    charts.draw_bars(left, [textwrap.fill(data.title, _TITLE_WIDTH) for data in sets], bars)
    left.set_title("(a) mean over clients", fontsize=9, loc="left")
    panels = [figure.add_subplot(grid[row, 1]) for row in range(len(sets))]
    for letter, axes, data in zip(ascii_lowercase[1:], panels, sets, strict=False):
        clients = [
            charts.Series(name=shown, colour=shade, values=results.one(data.name, key).clients)
            for key, (shown, shade) in names.items()
        ]
        charts.draw_clients(axes, clients)
        axes.set_title(f"({letter}) clients of {data.title}", fontsize=9, loc="left")
    figure.align_ylabels(panels)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(names), fontsize=8,
                  frameon=False)  # fmt: skip
    return Findings(
        figure=figure,
        csv=results.csv(),
        tables=(
            ("Mean accuracy over clients, last round, %", means_table(results)),
            *(clients_table(results, data) for data in sets),
        ),
        verdicts=tuple(verdicts),
        notes=("Lines connect the clients of one algorithm (first seed) for readability; they are not trends.",),
    )


def show_variants(job: Job, results: TargetResults) -> Findings:
    """Show a panel per data set with a bar per algorithm."""
    figure = new_figure(4.6 * len(job.plans), 3.6, job.title)
    panels = figure.subplots(1, len(job.plans), squeeze=False)[0]
    verdicts: list[ClaimVerdict] = []
    for axes, plan in zip(panels, job.plans, strict=True):
        data = plan.data
        means = results.means(data.name)
        series = [
            charts.Series(
                name=spelled(name),
                colour=colour(name),
                values=(results.one(data.name, name).mean,),
                deviations=(results.one(data.name, name).deviation,),
            )
            for name in VARIANTS
        ]
        charts.draw_bars(axes, [""], series)
        axes.set_xticks([(n - (len(series) - 1) / 2) * 0.16 for n in range(len(series))], [s.name for s in series])
        axes.set_title(data.title, fontsize=9, loc="left")
        where = f"{data.title}: "
        claim = "FedAP, d-FedAP and f-FedAP all have a better mean accuracy than FedAvg and FedBN."
        verdicts.append(judges.all_above(means, ours=VARIANTS[2:], others=VARIANTS[:2], claim=claim, where=where))
        claim = "f-FedAP is slightly worse than FedAP and d-FedAP."
        verdicts.append(judges.slightly_below(means, name="f-fedap", others=VARIANTS[2:4], claim=claim, where=where))
    return Findings(
        figure=figure,
        csv=results.csv(),
        tables=(("Mean accuracy over clients, last round, %", means_table(results)),),
        verdicts=tuple(verdicts),
    )


TARGETS = (
    Target(
        name="weighting",
        where="Figure 7 (a), (b)",
        shows="FedAP against FedBN: what weighting is worth, mean and per client",
        headline="FedAP against FedBN",
        needs=BOTH,
        work=show_weighting,
        cells=cells_of("fedbn", "fedap"),  # FedBN is FedAP without its weighting
    ),
    Target(
        name="bn",
        where="Figure 7 (c), (d)",
        shows="Local against shared batch normalisation, mean and per client",
        headline="Local against shared batch normalisation",
        needs=BOTH,
        work=show_bn,
        cells=bn_cells,
    ),
    Target(
        name="variants",
        where="Figure 9",
        shows="FedAP, d-FedAP and f-FedAP against FedAvg and FedBN",
        headline="Three ways to the weights",
        needs=BOTH,
        work=show_variants,
        cells=cells_of(*VARIANTS),
    ),
)
