"""`fedap-lab audit`: tables of attacks on our own runs. Reads options, makes missing runs, prints and writes.

A killed command resumes where it was: findings are kept by algorithm and budget in audit.json. The tables come from the
report (`report.page.leakage`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedap_core.strategies import make_strategy
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy, spent_epsilon
from protocol.plan import Sgd
from scripts.report.page.leakage import ABOUT, ALGORITHM, AUDIT, EXACT, RECOVERY, STATISTICS, UPDATES, leakage_of
from scripts.report.tables import plain_table
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import AnchorSettings, CohortSettings, RunSettings

if TYPE_CHECKING:  # these import torch, which is needed only if there is something to run
    from scripts.experiments.audit.membership import Outside
    from scripts.experiments.audit.statistics import StatisticsAudit

MODELS = {"watch": "har-cnn", "har": "har-cnn"}
UNITS = "averaged by unit"
"""Statistics without noise or clipping, in which every unit counts once."""
PERSONAL = "fedap"
"""The algorithm whose statistics and updates get noise, and which is also attacked in a sealed run."""
LEAVING = "weights that leave"


def audit(
    out: Annotated[Path, typer.Option(help="Folder for audit.json, audit.md and the runs.")] = Path("audit"),
    data: Annotated[str, typer.Option(help="Data set, as for compare.")] = "watch",
    partition: Annotated[str, typer.Option(help="site, dirichlet-pairs, dirichlet or iid.")] = "site",
    clients: Annotated[int, typer.Option(min=4, help="Number of clients, if the data are not divided by site.")] = 10,
    algorithms: Annotated[str, typer.Option(help="Comma-separated.")] = "base,fedavg,fedbn,fedap",
    epsilons: Annotated[str, typer.Option(help="Budgets of private statistics, comma-separated.")] = "0.3,1,3,10,100",
    update_epsilons: Annotated[str, typer.Option(help="Budgets of private updates per round, comma-separated.")] = "",
    update_clip: Annotated[float, typer.Option(help="Clipping norm of private updates.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = 30,
    momentum: Annotated[float, typer.Option(help="Momentum of local training.")] = 0.9,
    workers: Annotated[int, typer.Option(min=1, help="Processes that train clients.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of data, models and attacks.")] = 0,
) -> None:
    """Measure what leaks: membership, class proportions from statistics, updates recovered from delivered models."""
    names = algorithms.split(",")
    for name in names:
        make_strategy(name)  # refuse a misspelt name before any data is read
    described = CohortSettings.model_validate({"data": data, "partition": partition, "clients": clients})
    base = RunSettings(
        cohort=described, model=MODELS.get(data, "lenet5"), algorithm=PERSONAL, rounds=rounds, seed=seed,
        sgd=Sgd(momentum=momentum), anchor=AnchorSettings(kind="pooled"), evaluate_every=rounds,
    )  # fmt: skip
    budgets = {epsilon: StatisticsPrivacy(epsilon=float(epsilon)) for epsilon in epsilons.split(",") if epsilon}
    noises = {one: UpdatePrivacy(epsilon=float(one), clip=update_clip) for one in update_epsilons.split(",") if one}
    out.mkdir(parents=True, exist_ok=True)
    kept = out / AUDIT
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    attacks = Attacks(base, make_cohort(described, seed), out / "runs", workers)

    for key, make in attacks.wanted(names, budgets, noises).items():
        if key not in found:
            typer.echo(f"{key} …")
            found[key] = make()
            _keep(found, kept)
            typer.echo(f"{key}: done")
    found[ABOUT] = f"{data}, {len(attacks.cohort.clients)} clients, {rounds} rounds, seed {seed}"
    _keep(found, kept)
    leakage = leakage_of(found)
    text = "\n".join([f"{leakage.about}.\n", *(plain_table(table.head, table.rows) for table in leakage.tables)])
    if budgets:
        from scripts.experiments.audit.drawing import budget_figure

        by_epsilon = {float(name): found[f"{STATISTICS}{name}"] for name in budgets}
        budget_figure(by_epsilon, found[f"{STATISTICS}{EXACT}"], found[f"{STATISTICS}{UNITS}"], out / "budgets")
    (out / "audit.md").write_text(text, encoding="utf-8")
    typer.echo(text, nl=False)


def _keep(found: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


class Attacks:
    """All attacks on one cohort. base: the settings of the runs, changed one by one."""

    def __init__(self, base: RunSettings, cohort: Cohort, root: Path, workers: int) -> None:
        self.cohort = cohort
        self._base = base
        self._root = root
        self._workers = workers

    def wanted(
        self, names: Sequence[str], budgets: Mapping[str, StatisticsPrivacy], noises: Mapping[str, UpdatePrivacy]
    ) -> dict[str, Callable[[], dict[str, Any]]]:
        """Return every finding's name, in the order of the tables, with the function that computes it."""
        found: dict[str, Callable[[], dict[str, Any]]] = {
            f"{ALGORITHM}{name}": partial(self.attacked, {"algorithm": name}) for name in names
        }
        if PERSONAL in names:
            found[f"{ALGORITHM}{PERSONAL}, sealed"] = self.sealed
        if PERSONAL in names and budgets:
            strictest = min(budgets, key=float)
            changed = {"statistics_privacy": budgets[strictest]}
            found[f"{ALGORITHM}{PERSONAL}, statistics with ε = {strictest}"] = partial(self.attacked, changed)
        for name in (EXACT, UNITS, *budgets):
            found[f"{STATISTICS}{name}"] = partial(self.measured, name, budgets.get(name))
        for name in (EXACT, *noises) if noises else ():
            found[f"{UPDATES}{name}"] = partial(self.updates, noises.get(name))
        return found

    def measured(self, name: str, privacy: StatisticsPrivacy | None) -> dict[str, Any]:
        """Measure what statistics reveal: exact, averaged or under a budget."""
        return self._statistics.judge(name, privacy)

    @cached_property
    def _statistics(self) -> StatisticsAudit:
        from scripts.experiments.audit.statistics import StatisticsAudit

        return StatisticsAudit(self._base, self.cohort, self._root, workers=self._workers)

    @cached_property
    def _outside(self) -> Outside:
        """The attacker's own data and models, the same for all runs because they start from one model."""
        from scripts.experiments.audit.membership import outside_of

        return outside_of(self._base, self.cohort, self._root)

    def attacked(self, changed: Mapping[str, object]) -> dict[str, Any]:
        """Run membership inference against every target, and recover updates from delivered models."""
        from scripts.experiments.audit.capture import capture
        from scripts.experiments.audit.membership import membership
        from scripts.experiments.audit.recovery import recovery

        settings = self._base.model_copy(update=dict(changed))
        captured = capture(settings, self.cohort, self._root, workers=self._workers)
        strengths = membership(captured, self.cohort, self._outside, settings.seed)
        described: dict[str, Any] = {name: dataclasses.asdict(one) for name, one in strengths.items()}
        if captured.shared and settings.strategy().name != "base":
            errors = recovery(captured.weights, captured.sent, captured.given, settings.seed)
            described[RECOVERY] = dataclasses.asdict(errors)
        return described

    def sealed(self) -> dict[str, Any]:
        """Attack the weights that leave as the coordinator of a sealed run sees them; for members nothing changes."""
        from scripts.experiments.audit.capture import capture, with_updates
        from scripts.experiments.audit.membership import membership
        from scripts.experiments.audit.recovery import padded

        captured = capture(self._base, self.cohort, self._root, workers=self._workers)
        seen = padded(captured.sent, self._base.seed)
        seen *= captured.sent.std() / seen.std()  # an attacker knows the scale of weights
        strengths = membership(with_updates(captured, seen), self.cohort, self._outside, self._base.seed)
        return {name: dataclasses.asdict(one) for name, one in strengths.items() if name.startswith(LEAVING)}

    def updates(self, privacy: UpdatePrivacy | None) -> dict[str, Any]:
        """Measure what noise in updates costs, and what attacks still find."""
        from scripts.experiments.audit.statistics import accuracy_of

        changed = {"update_privacy": privacy}
        settings = self._base.model_copy(update=dict(changed))
        together = None
        if privacy is not None:
            together = spent_epsilon([privacy.noise_multiplier] * settings.rounds, privacy.delta)
        accuracy = accuracy_of(settings, self.cohort, self._root, workers=self._workers)
        found = self.attacked(changed)
        by_attack = {attack: found[f"{LEAVING}, {attack}"] for attack in ("loss", "reference")}
        return {"together": together, "accuracy": accuracy, **by_attack}
