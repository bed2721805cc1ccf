"""Makes the accuracy tables (PAMAP2, three Organ sets) and COVID-19's figure: all algorithms on one set, per client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from matplotlib.figure import Figure

from scripts.experiments.reproduce import judges, paper
from scripts.experiments.reproduce.judges import ClaimVerdict
from scripts.experiments.reproduce.results import TargetResults
from scripts.experiments.reproduce.shown import clients_table
from scripts.experiments.reproduce.target import Findings, Job, Target, cells_of
from scripts.report import charts, tables
from scripts.report.algorithms import colour, spelled
from scripts.report.figures import draw_mixing, titled_axes

ALGORITHMS = ("base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap")
"""The default algorithms of `fedap-lab compare`."""
COVID_ALGORITHMS = ("base", "fedavg", "fedbn", "fedprox", "fedper", "fedap")
"""The six of the paper's figure, in the order of its tables."""


def show_table(
    claims: Callable[[Mapping[str, float]], tuple[ClaimVerdict, ...]], job: Job, results: TargetResults
) -> Findings:
    """Show clients as dots in a row per algorithm, with our mean and the paper's. claims: judges the six means."""
    data = job.plans[0].data.name
    stated = paper.ACCURACY.get(data)
    averages = stated.averages if stated else {}
    figure, axes = titled_axes(7.2, 4.6, job.title)
    strips = [
        charts.Strip(
            name=spelled(m.cell.name),
            colour=colour(m.cell.name),
            clients=m.clients,
            mean=m.mean,
            paper=averages.get(m.cell.name),
        )
        for m in results.measured
    ]
    charts.draw_strips(axes, strips)
    explained = "dots: clients (first seed); bar: mean" + ("; diamond: the paper's mean" if stated else "")
    figure.supxlabel(explained, fontsize=8, color="#666666")
    return Findings(
        figure=figure,
        more=_weights(results, data),
        csv=results.csv(),
        tables=(
            ("Mean accuracy over clients, %", tables.beside_paper(tables.rows(results.summaries(data)), averages)),
            clients_table(results, job.plans[0].data),
        ),
        verdicts=claims({m.cell.name: m.mean for m in results.measured if m.cell.name in COVID_ALGORITHMS}),
        notes=(f"The paper's means: {stated.where}.",) if stated else (),
    )


def _weights(results: TargetResults, data: str) -> tuple[tuple[str, str, Figure], ...]:
    """Draw FedAP's W as a heat map, if the run stored it."""
    measured = results.one(data, "fedap")
    mixing = measured.folders[0].read_mixing()
    if mixing is None:
        return ()
    seed = measured.cell.runs[0].seed
    title = f"Who learns from whom: W of FedAP, {measured.cell.data.title}, seed {seed}"
    return (("mixing", title, draw_mixing(mixing.weights, measured.folders[0].members(), title)),)


def pamap2_claims(means: Mapping[str, float]) -> tuple[ClaimVerdict, ...]:
    """Judge what the section «Classification Accuracy» claims about PAMAP2."""
    claim = f"On PAMAP2 FedAP has the best mean accuracy, over {paper.PAMAP2_LEAD:g} points ahead."
    return (judges.best(means, claim=claim, lead=paper.PAMAP2_LEAD),)


def organ_claims(means: Mapping[str, float]) -> tuple[ClaimVerdict, ...]:
    """Judge what the same section claims about the Organ sets."""
    best = f"On the Organ sets FedAP has the best mean accuracy, over {paper.ORGAN_LEAD:g} points ahead on average."
    return (
        judges.best(means, claim=best, lead=paper.ORGAN_LEAD),
        judges.second_best(means, name="fedbn", claim="FedBN is second on all three Organ sets."),
        judges.worst(means, name="base", claim="Base has the worst mean accuracy on all three Organ sets."),
    )


def show_covid(job: Job, results: TargetResults) -> Findings:
    """Show grouped bars: clients along the axis, their average at the right end."""
    data = job.plans[0].data.name
    measured = results.measured
    members = len(measured[0].clients)
    figure, axes = titled_axes(13.0, 4.4, job.title)
    series = [
        charts.Series(name=spelled(m.cell.name), colour=colour(m.cell.name), values=(*m.clients, m.mean))
        for m in measured
    ]
    charts.draw_bars(axes, [*(str(number + 1) for number in range(members)), "avg"], series, labelled=False)
    axes.axvline(members - 0.5, color="#999999", linewidth=0.8)
    axes.set_xlabel("client")
    axes.set_ylabel("accuracy, %")
    axes.margins(x=0.01)
    charts.below(axes, columns=len(series))
    means = {m.cell.name: m.mean for m in measured}
    best = f"On COVID-19 FedAP has the best mean accuracy, {paper.COVID_LEAD:g} points ahead of the second best."
    return Findings(
        figure=figure,
        csv=results.csv(),
        tables=(
            ("Mean accuracy over clients, %", tables.beside_paper(tables.rows(results.summaries(data)))),
            clients_table(results, job.plans[0].data),
        ),
        verdicts=(
            judges.best(means, claim=best, lead=paper.COVID_LEAD),
            judges.second_best(means, name="fedper", claim="FedPer is second on COVID-19."),
            judges.worst(means, name="fedbn", claim="FedBN has the worst mean accuracy on COVID-19."),
        ),
        notes=(
            "The paper shows this as a figure without numbers; clients are the first seed's, `avg` is over all seeds.",
        ),
    )


def _organ(letter: str, number: int) -> Target:
    return Target(
        name=f"organ{letter.lower()}",
        where=f"Table {number}",
        shows=f"Accuracy on Organ{letter}MNIST, all algorithms, per client",
        headline="Accuracy of all algorithms",
        needs=(f"organ{letter.lower()}mnist",),
        work=partial(show_table, organ_claims),
        cells=cells_of(*ALGORITHMS),
        stand_in_stem="accuracy",
    )


TARGETS = (
    Target(
        name="pamap2",
        where="Table 2",
        shows="Accuracy on PAMAP2, all algorithms, per client",
        headline="Accuracy of all algorithms",
        needs=("pamap2",),
        work=partial(show_table, pamap2_claims),
        cells=cells_of(*ALGORITHMS),
        stand_in_stem="accuracy",
    ),
    _organ("A", 3),
    _organ("C", 4),
    _organ("S", 5),
    Target(
        name="covid",
        where="Figure 6",
        shows="Accuracy on COVID-19, all algorithms, per client",
        headline="Accuracy of all algorithms",
        needs=("covid",),
        work=show_covid,
        cells=cells_of(*COVID_ALGORITHMS),
        stand_in_stem="accuracy-bars",
    ),
)
