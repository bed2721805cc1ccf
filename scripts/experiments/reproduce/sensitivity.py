"""Measures sensitivity to uneven data, local iterations, number of clients, local epochs, and the self weight.

Where the paper keeps the total of epochs fixed, the number of rounds is exactly that total over the local epochs.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib as mpl
from matplotlib.colors import to_hex

from scripts.experiments.reproduce import judges
from scripts.experiments.reproduce.judges import ClaimVerdict
from scripts.experiments.reproduce.results import Cell, TargetResults
from scripts.experiments.reproduce.shown import lines_over_settings, means_table
from scripts.experiments.reproduce.target import DataSetPlan, Findings, Job, Target
from scripts.report import charts
from scripts.report.algorithms import colour, spelled
from scripts.report.figures import draw_curves, new_figure, titled_axes

ORGANS = ("organamnist", "organcmnist", "organsmnist")
ALPHAS = (0.1, 0.05)
ITERATIONS = (1, 2, 4, 8)
ITERATIONS_TOTAL = 80
"""Divisible by 8; separate from the tables' runs of 100 rounds."""
ITERATIONS_EVALUATE_EVERY = 10
"""Differs from the tables': their longer runs evaluate other rounds and must not be mistaken for these."""
QUICK_ITERATIONS_TOTAL = 16
EPOCHS, QUICK_EPOCHS = (1, 2, 5, 10), (1, 2, 5)
CLIENTS = (10, 20, 50, 100)
LAMBDAS, QUICK_LAMBDAS = ("0.1", "0.3", "0.5", "0.7", "0.9"), ("0.1", "0.5", "0.9")
DEFAULT_LAMBDA = "0.5"
COMPARED = ("fedavg", "fedbn", "fedap")


def alpha_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """Two values of alpha, two algorithms."""
    return tuple(
        plan.cell(name, at=f"α = {alpha:g}", cohort={"alpha": alpha})
        for alpha in ALPHAS
        for name in ("fedavg", "fedap")
    )


def iteration_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """More local epochs, fewer rounds."""
    usual = QUICK_ITERATIONS_TOTAL if plan.scale.quick else ITERATIONS_TOTAL
    total = plan.scale.rounds or usual
    every = 1 if plan.scale.quick else ITERATIONS_EVALUATE_EVERY
    return tuple(_kept_total(plan, name, epochs, total, every) for epochs in ITERATIONS for name in COMPARED[1:])


def epoch_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """The same with the settings of the sensitivity figure."""
    values = QUICK_EPOCHS if plan.scale.quick else EPOCHS
    return tuple(
        _kept_total(plan, name, epochs, plan.base.rounds, plan.base.evaluate_every)
        for epochs in values
        for name in COMPARED
    )


def _kept_total(plan: DataSetPlan, name: str, epochs: int, total: int, evaluate_every: int) -> Cell:
    rounds = plan.rounds_for(epochs, total=total)
    return plan.cell(name, at=f"{epochs} × {rounds}", epochs=epochs, rounds=rounds, evaluate_every=evaluate_every)


def client_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """The same data among more clients; quick: half of the usual number, and the usual number."""
    usual = plan.base.cohort.clients
    values = (usual // 2, usual) if plan.scale.quick else CLIENTS
    return tuple(plan.cell(name, at=str(count), cohort={"clients": count}) for count in values for name in COMPARED)


def lambda_cells(plan: DataSetPlan) -> tuple[Cell, ...]:
    """FedAP's self weight; the default is left out of the options, so that the tables' run is reused."""
    values = QUICK_LAMBDAS if plan.scale.quick else LAMBDAS
    return tuple(
        plan.cell("fedap", at=f"λ = {value}", options={} if value == DEFAULT_LAMBDA else {"self_weight": value})
        for value in values
    )


def show_alpha(job: Job, results: TargetResults) -> Findings:
    """Show bars of FedAvg and FedAP, grouped by data set and alpha."""
    settings = results.settings()
    groups = [(plan.data, at) for plan in job.plans for at in settings]
    series = [
        charts.Series(
            name=spelled(name),
            colour=colour(name),
            values=tuple(results.one(data.name, name, at).mean for data, at in groups),
            deviations=tuple(results.one(data.name, name, at).deviation for data, at in groups),
        )
        for name in ("fedavg", "fedap")
    ]
    figure, axes = titled_axes(2.6 + 2.2 * len(job.plans), 3.8, job.title)
    charts.draw_bars(axes, [f"{data.title}\n{at}" for data, at in groups], series)
    charts.below(axes, columns=2)
    claim = "With more uneven clients (α = 0.05) FedAvg drops, while FedAP is not affected much."
    verdicts = []
    for plan in job.plans:
        fedavg, fedap = (
            (results.one(plan.data.name, name, settings[0]).mean, results.one(plan.data.name, name, settings[1]).mean)
            for name in ("fedavg", "fedap")
        )
        where = f"{plan.data.title}: "
        verdicts.append(judges.robust_to_uneven_data(fedavg=fedavg, fedap=fedap, claim=claim, where=where))
    return Findings(figure=figure, csv=results.csv(), tables=(_means(results),), verdicts=tuple(verdicts))


def show_iterations(job: Job, results: TargetResults) -> Findings:
    """Show FedBN and FedAP over local epochs times rounds."""
    data, settings = job.plans[0].data.name, results.settings()
    values = {name: [results.one(data, name, at).mean for at in settings] for name in COMPARED[1:]}
    claim = "With more local iterations and fewer rounds FedBN drops seriously, while FedAP declines slowly."
    verdict = judges.declines_less(
        ours=("FedAP", values["fedap"]), other=("FedBN", values["fedbn"]), ends=(settings[0], settings[-1]), claim=claim
    )
    return _over_settings(job, results, COMPARED[1:], "local epochs × rounds", (verdict,))


def show_clients(job: Job, results: TargetResults) -> Findings:
    """Show three algorithms over the number of clients."""
    claims = ("With more clients FedAP's accuracy goes down.", "FedAP is the best in most cases of the client number.")
    return _sensitivity(job, results, "clients", claims, share=0.5)


def show_epochs(job: Job, results: TargetResults) -> Findings:
    """Show three algorithms over local epochs, with the total of epochs fixed."""
    claims = (
        "FedAP's accuracy descends with local epochs, the total of epochs kept.",
        "FedAP is the best at all of them.",
    )
    return _sensitivity(job, results, "local epochs × rounds", claims)


def _sensitivity(
    job: Job, results: TargetResults, axis: str, claims: tuple[str, str], *, share: float = 1.0
) -> Findings:
    data, settings = job.plans[0].data.name, results.settings()
    values = [results.one(data, "fedap", at).mean for at in settings]
    verdicts = (
        judges.goes_down(values, settings, name="FedAP", claim=claims[0]),
        judges.leads({at: results.means(data, at) for at in settings}, claim=claims[1], share=share),
    )
    return _over_settings(job, results, COMPARED, axis, verdicts)


def _over_settings(
    job: Job, results: TargetResults, names: tuple[str, ...], axis: str, verdicts: tuple[ClaimVerdict, ...]
) -> Findings:
    figure, axes = titled_axes(5.4, 3.9, job.title)
    charts.draw_lines(axes, results.settings(), lines_over_settings(results, job.plans[0].data.name, names))
    axes.set_xlabel(axis)
    charts.within(axes)
    return Findings(figure=figure, csv=results.csv(), tables=(_means(results),), verdicts=verdicts)


def show_lambda(job: Job, results: TargetResults) -> Findings:
    """Show final accuracy over lambda (left), and accuracy per round with a curve per lambda (right)."""
    data, settings = job.plans[0].data.name, results.settings()
    figure = new_figure(10.0, 3.9, job.title)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.35))
    charts.draw_lines(
        left, [at.removeprefix("λ = ") for at in settings], lines_over_settings(results, data, ("fedap",))
    )
    left.set_xlabel("λ (weight on oneself)")
    left.set_title("(a) final accuracy", fontsize=9, loc="left")
    shade = _shades(settings)
    at_of = {m.summaries[0].algorithm: m.cell.at for m in results.measured}
    draw_curves(right, results.summaries(data), colour_of=lambda name: shade(at_of[name]), name_of=at_of.__getitem__)
    right.set_title("(b) accuracy per round", fontsize=9, loc="left")
    final = {at: results.one(data, "fedap", at).mean for at in settings}
    rounds = {at: results.one(data, "fedap", at).converged for at in settings}
    every = job.plans[0].base.evaluate_every
    return Findings(
        figure=figure,
        csv=results.csv(),
        tables=(_means(results),),
        verdicts=(
            judges.affects_slightly(final, claim="λ slightly affects the final accuracy."),
            judges.changes_speed(rounds, every=every, claim="λ changes the convergence rate."),
        ),
    )


def _shades(settings: list[str]) -> Callable[[str], str]:
    """Return shades from light to dark along the settings, in FedAP's hue."""
    scale = mpl.colormaps["YlOrRd"]
    last = max(len(settings) - 1, 1)
    return lambda at: to_hex(scale(0.35 + 0.6 * settings.index(at) / last))


def _means(results: TargetResults) -> tuple[str, str]:
    return "Mean accuracy over clients, last round, %", means_table(results)


def _on_one_set(
    names: tuple[str, str, str, str],
    work: Callable[[Job, TargetResults], Findings],
    cells: Callable[[DataSetPlan], tuple[Cell, ...]],
) -> Target:
    """Make a target on OrganAMNIST, the largest public download: the paper does not say which data it shows."""
    name, where, headline, shows = names
    return Target(
        name=name, where=where, shows=shows, headline=headline, needs=ORGANS[:1], work=work, cells=cells, stated=False
    )


TARGETS = (
    Target(
        name="alpha",
        where="Figure 8 (a)",
        shows="FedAvg and FedAP under Dirichlet 0.1 and 0.05",
        headline="Uneven data",
        needs=ORGANS,
        work=show_alpha,
        cells=alpha_cells,
    ),
    _on_one_set(
        (
            "iterations",
            "Figure 8 (b)",
            "Local iterations against rounds",
            "FedBN and FedAP; E = 1, 2, 4, 8 with E·R kept",
        ),
        show_iterations,
        iteration_cells,
    ),
    _on_one_set(
        ("clients", "Figure 10 (a)", "Number of clients", "FedAvg, FedBN and FedAP with 10, 20, 50 and 100 clients"),
        show_clients,
        client_cells,
    ),
    _on_one_set(
        ("epochs", "Figure 10 (b)", "Local epochs", "FedAvg, FedBN and FedAP; E = 1, 2, 5, 10 with E·R kept"),
        show_epochs,
        epoch_cells,
    ),
    _on_one_set(
        ("lambda", "Figure 10 (c), (d)", "Weight on oneself", "FedAP, λ from 0.1 to 0.9: final accuracy, and curves"),
        show_lambda,
        lambda_cells,
    ),
)
