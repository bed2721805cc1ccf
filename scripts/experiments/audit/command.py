"""`fedap-lab audit`: attacks on runs of ours, as tables. Reads options, runs what is missing, prints and writes.

A killed command goes on where it was: findings are kept by algorithm and budget in audit.json.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedap_core.arrays import FloatArray
from fedap_core.strategies import make_strategy
from participant.training.privacy_budget import StatisticsPrivacy
from protocol.plan import Sgd
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import AnchorSettings, CohortSettings, RunSettings

MODELS = {"watch": "har-cnn", "har": "har-cnn"}
EXACT = "exact"
SINGULAR = 1e12
"""A condition number beyond which W cannot be solved for."""
UNITS = "averaged by unit"
"""Statistics without noise or clipping, with every unit counted once."""


def audit(
    out: Annotated[Path, typer.Option(help="Where audit.json and audit.md go; runs beside them.")] = Path("audit"),
    data: Annotated[str, typer.Option(help="Data set, as for compare.")] = "watch",
    partition: Annotated[str, typer.Option(help="site, dirichlet-pairs, dirichlet or iid.")] = "site",
    clients: Annotated[int, typer.Option(min=4, help="How many, where they are not sites.")] = 10,
    algorithms: Annotated[str, typer.Option(help="Which, by commas.")] = "base,fedavg,fedbn,fedap",
    epsilons: Annotated[str, typer.Option(help="Budgets of private statistics, by commas.")] = "0.3,1,3,10,100",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = 30,
    momentum: Annotated[float, typer.Option(help="Of local training.")] = 0.9,
    workers: Annotated[int, typer.Option(min=1, help="Processes that train clients.")] = 1,
    seed: Annotated[int, typer.Option(help="Of data, models and attacks.")] = 0,
) -> None:
    """What leaks: membership inference, class proportions from statistics, updates recovered from what is delivered."""
    for name in algorithms.split(","):
        make_strategy(name)  # a misspelt name is said before any data is read
    described = CohortSettings.model_validate({"data": data, "partition": partition, "clients": clients})
    base = RunSettings(
        cohort=described, model=MODELS.get(data, "lenet5"), algorithm="fedap", rounds=rounds, seed=seed,
        sgd=Sgd(momentum=momentum), anchor=AnchorSettings(kind="pooled"), evaluate_every=rounds,
    )  # fmt: skip
    budgets = {epsilon: StatisticsPrivacy(epsilon=float(epsilon)) for epsilon in epsilons.split(",") if epsilon}
    cohort = make_cohort(described, seed)
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "audit.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}

    def keep(key: str, value: object) -> None:
        found[key] = value
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        typer.echo(f"{key}: done")

    for name in algorithms.split(","):
        if f"algorithm {name}" not in found:
            keep(f"algorithm {name}", _attacked(base.model_copy(update={"algorithm": name}), cohort, out, workers))
    for epsilon in (EXACT, UNITS, *budgets):
        if f"statistics {epsilon}" not in found:
            keep(f"statistics {epsilon}", _measured(base, cohort, out, epsilon, budgets.get(epsilon), workers))
    lines = table(found, f"{data}, {len(cohort.clients)} clients, {rounds} rounds, seed {seed}")
    if budgets:
        from scripts.experiments.audit.drawing import budget_figure

        by_epsilon = {float(name): found[f"statistics {name}"] for name in budgets}
        budget_figure(by_epsilon, found[f"statistics {EXACT}"], out / "budgets")
    (out / "audit.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo("\n".join(lines))


def _attacked(settings: RunSettings, cohort: Cohort, out: Path, workers: int) -> dict[str, Any]:
    from scripts.experiments.audit.capture import capture  # torch: only when there is something to run
    from scripts.experiments.audit.membership import membership, outside_of
    from scripts.experiments.audit.recovery import recovery

    captured = capture(settings, cohort, out / "runs", workers=workers)
    outside = outside_of(captured, cohort, settings.sgd, settings.seed)
    strengths = membership(captured, cohort, outside, settings.seed)
    described: dict[str, Any] = {name: dataclasses.asdict(one) for name, one in strengths.items()}
    if captured.shared and settings.strategy().name != "base":
        described["recovery"] = recovery(captured.weights, captured.sent, captured.given, settings.seed).plain()
    return described


def _measured(
    base: RunSettings, cohort: Cohort, out: Path, name: str, privacy: StatisticsPrivacy | None, workers: int
) -> dict[str, float | None]:
    from scripts.experiments.audit.statistics import StatisticsAudit

    return StatisticsAudit(base, cohort, out / "runs", workers=workers).judge(name, privacy)


def table(found: dict[str, Any], title: str) -> list[str]:
    """All findings as Markdown."""
    attacked = {key.removeprefix("algorithm "): value for key, value in found.items() if key.startswith("algorithm ")}
    lines = [
        f"{title}.", "",
        "| algorithm | what is attacked, how | AUC (95 % interval) | members found at 1 % false alarms |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name, attacks in attacked.items():
        for attack, one in attacks.items():
            if attack != "recovery":
                interval = f"{one['auc']:.3f} ({one['low']:.3f} to {one['high']:.3f})"
                lines.append(f"| {name} | {attack} | {interval} | {100 * one['hits']:.1f} % |")
    lines += [
        "", "| algorithm | condition of W | largest weight of a peer | error: all rows seen | one member | sealed |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, attacks in attacked.items():
        if one := attacks.get("recovery"):
            condition = "singular" if one["condition"] > SINGULAR else f"{one['condition']:.3g}"
            shown = [condition, *(f"{one[key]:.3g}" for key in ("largest", "all_rows", "one_member", "sealed"))]
            lines.append(f"| {name} | {' | '.join(shown)} |")
    head = ("statistics of fedap", "W's correlation with the exact one", "accuracy", "error of class shares (guessing)")
    lines += ["", f"| {' | '.join(head)} | AUC of present classes |", "|---|---|---|---|---|"]
    for key, one in found.items():
        if key.startswith("statistics "):
            name = key.removeprefix("statistics ")
            shown_name = name if name in (EXACT, UNITS) else f"ε = {name}"
            accuracy = "–" if one["accuracy"] is None else f"{100 * one['accuracy']:.2f} %"
            shares = f"{one['error']:.3f} ({one['guess']:.3f})"
            lines.append(f"| {shown_name} | {one['correlation']:.3f} | {accuracy} | {shares} | {one['auc']:.3f} |")
    return lines


def off_diagonal_correlation(one: FloatArray, other: FloatArray) -> float:
    """Pearson's, over the weights that members have in each other's rows."""
    apart = ~np.eye(len(one), dtype=bool)
    a, b = one[apart], other[apart]
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0
