"""Shows convergence: every algorithm's accuracy per round, rounds and bytes until 95 % of its final accuracy."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from scripts.experiments.reproduce import judges, paper
from scripts.experiments.reproduce.accuracy import ALGORITHMS
from scripts.experiments.reproduce.judges import ClaimVerdict
from scripts.experiments.reproduce.results import Measured, TargetResults
from scripts.experiments.reproduce.target import Findings, Job, Target, cells_of
from scripts.report import tables
from scripts.report.algorithms import colour, spelled
from scripts.report.figures import draw_curves, titled_axes
from scripts.report.traffic import computed, counted, spec_of
from scripts.run.records import ParticipantBytes

NEAR = 0.95
_MEGABYTE = 1e6


def show_convergence(job: Job, results: TargetResults) -> Findings:
    """Show curves with a dot where each has converged, and a table of rounds and bytes."""
    data = job.plans[0].data.name
    figure, axes = titled_axes(7.4, 4.4, job.title)
    draw_curves(axes, results.summaries(data), name_of=spelled)
    _mark_convergence(axes, results)
    traffic = {m.cell.name: _traffic(m, job) for m in results.measured}
    return Findings(
        figure=figure,
        csv=_csv(results, traffic),
        tables=(("Until 95 % of the final accuracy", _table(results, traffic)),),
        verdicts=_claims(results, data, every=job.plans[0].base.evaluate_every),
        notes=_notes(traffic, every=job.plans[0].base.evaluate_every),
    )


def _mark_convergence(axes: Axes, results: TargetResults) -> None:
    """Draw a dot on each mean curve, at the mean round of convergence."""
    for measured in results.measured:
        if measured.converged is not None:
            at = measured.converged
            curves = [np.array(run.curve, dtype=np.float64).T for run in measured.summaries]
            height = 100 * float(np.mean([np.interp(at - 1, rounds, values) for rounds, values in curves]))
            axes.scatter([at], [height], s=34, color=colour(measured.cell.name), zorder=4)


def _traffic(measured: Measured, job: Job) -> ParticipantBytes:
    run = measured.cell.runs[0]
    return counted(measured.folders) or computed(spec_of(run, job.root), run.strategy())


def _table(results: TargetResults, traffic: dict[str, ParticipantBytes]) -> str:
    heads = ["", "final %", "rounds", "MB a round", "MB once", "MB until then", "bytes are"]
    body = []
    for m in results.measured:
        cost = traffic[m.cell.name]
        rounds = "–" if m.converged is None else f"{m.converged:.0f}"
        until = "–" if m.converged is None else f"{cost.until(m.converged) / _MEGABYTE:.2f}"
        kind = "measured" if cost.measured else "computed"
        sizes = [f"{cost.per_round / _MEGABYTE:.3f}", f"{cost.once / _MEGABYTE:.3f}", until]
        body.append([spelled(m.cell.name), f"{m.mean:.2f}", rounds, *sizes, kind])
    return tables.plain_table(heads, body)


def _csv(results: TargetResults, traffic: dict[str, ParticipantBytes]) -> str:
    """Return one line per algorithm and seed: rounds, bytes, and the accuracy of every evaluated round."""
    numbers = sorted({at for m in results.measured for run in m.summaries for at, _ in run.curve})
    rows: list[list[object]] = [
        ["data", "algorithm", "seed", "last", "converged", "bytes_a_round", "bytes_once", "bytes_until_converged",
         "bytes_are", *(f"round {number + 1}" for number in numbers)]
    ]  # fmt: skip
    for m in results.measured:
        cost = traffic[m.cell.name]
        for run in m.summaries:
            curve = dict(run.curve)
            until = "" if run.converged is None else round(cost.until(run.converged))
            rows.append(
                [m.cell.data.name, m.cell.name, run.seed, f"{100 * run.last:.3f}",
                 "" if run.converged is None else run.converged, round(cost.per_round), round(cost.once), until,
                 "measured" if cost.measured else "computed",
                 *(f"{100 * curve[number]:.3f}" if number in curve else "" for number in numbers)]
            )  # fmt: skip
    return tables.csv_text(rows)


def _claims(results: TargetResults, data: str, *, every: int) -> tuple[ClaimVerdict, ...]:
    ap, bn = results.one(data, "fedap"), results.one(data, "fedbn")
    level = NEAR * min(ap.mean, bn.mean)
    by = f"FedAP has almost converged in round {paper.FEDAP_CONVERGES_IN}."
    sooner = (
        f"FedBN needs over {paper.FEDBN_ROUNDS} rounds where FedAP needs {paper.FEDAP_ROUNDS}: FedAP is there sooner."
    )
    judged = judges.sooner_at_a_level(
        {"fedap": ap.reaches(level), "fedbn": bn.reaches(level)}, ours="fedap", other="fedbn", level=level, claim=sooner
    )
    bounds = {paper.FEDAP_CONVERGES_IN: by, paper.FEDAP_ROUNDS: f"{paper.FEDAP_ROUNDS} rounds are enough for FedAP."}
    return (
        *(
            judges.converges_by(ap.converged, name="FedAP", bound=bound, every=every, claim=claim)
            for bound, claim in bounds.items()
            if ap.cell.runs[0].rounds > bound  # a run that ends there does not show whether it would have risen further
        ),
        judged,
    )


def _notes(traffic: dict[str, ParticipantBytes], *, every: int) -> tuple[str, ...]:
    notes = ["`rounds`: the first from which accuracy stays at or above 95 % of the last round's, mean over seeds."]
    if every > 1:
        notes.append(
            f"Accuracy is evaluated every {every} rounds (and in each of the last ten), so `rounds` is that coarse."
        )
    if not all(cost.measured for cost in traffic.values()):
        notes.append(
            "Computed bytes: 4 for each shared value, up and down, every round; once, where W needs an anchor, the "
            "whole model down and 16 for each measured channel up. Framing (some hundred bytes a message) is left out."
        )
    return tuple(notes)


TARGETS = (
    Target(
        name="convergence",
        where="Figure 11",
        shows="Accuracy per round; rounds and bytes to 95 % of the final accuracy",
        headline="Convergence",
        needs=("organamnist",),
        work=show_convergence,
        cells=cells_of(*ALGORITHMS),
        stated=False,
    ),
)
