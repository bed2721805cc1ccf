"""`fedap-lab attacks`: a table of attack x algorithm x defence, with one hostile member among honest ones.

Reads options, makes missing runs, prints and writes; decides nothing. A killed command resumes where it was.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fedap_core.errors import InvalidInput, require_known
from fedap_core.robust import RULES
from protocol.plan import Sgd
from scripts.experiments.attacks.kinds import ATTACKS
from scripts.experiments.attacks.outcomes import (
    ALONE,
    CSV_HEADS,
    HONEST,
    AttackOutcome,
    AttackRun,
    csv_rows,
    table,
)
from scripts.experiments.comparison import seed_numbers
from scripts.report.tables import csv_text
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.run_folder import write_text
from scripts.run.settings import AnchorSettings, CohortSettings, RunSettings

MODELS = {"watch": "har-cnn", "har": "har-cnn"}
DEFENCES = ("nothing", *RULES)
"""nothing: refuse only values that are not finite; none: admission checks alone; others: with a robust mixing rule."""


def attacks(
    out: Annotated[Path, typer.Option(help="Folder for table.md, table.csv and outcomes.json.")] = Path("attacks"),
    data: Annotated[str, typer.Option(help="Data set: watch, har, organamnist.")] = "watch",
    partition: Annotated[str, typer.Option(help="site, dirichlet-pairs, dirichlet or iid.")] = "site",
    algorithms: Annotated[str, typer.Option(help="Comma-separated.")] = "fedap,fedavg,fedbn,fedper",
    attacks: Annotated[str, typer.Option(help="Comma-separated; default: all.")] = ",".join(ATTACKS),
    defences: Annotated[str, typer.Option(help=f"Of {', '.join(DEFENCES)}.")] = "nothing,limit",
    honest: Annotated[int, typer.Option(help="Number of honest members; one hostile member is added.")] = 4,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 30,
    momentum: Annotated[float, typer.Option(help="Momentum of local training.")] = 0.9,
    seeds: Annotated[str, typer.Option(help="Seeds of data, models and attacks, comma-separated.")] = "0",
) -> None:
    """Measure how much one hostile member costs the honest ones, for each attack and defence, over all seeds."""
    wanted, rules = attacks.split(","), defences.split(",")
    for name in wanted:
        require_known("attack", name, ATTACKS)
    for name in rules:
        require_known("defence", name, DEFENCES)
    described = CohortSettings.model_validate({"data": data, "partition": partition, "clients": honest + 1})
    numbers = seed_numbers(seeds)
    out.mkdir(parents=True, exist_ok=True)
    stored = StoredOutcomes(out / "outcomes.json")
    for seed in numbers:
        cohort = make_cohort(described, seed)
        if len(cohort.clients) <= honest:
            raise InvalidInput("honest", honest, f"fewer than the {len(cohort.clients)} clients of {data}")
        for algorithm in algorithms.split(","):
            settings = _settings(described, algorithm, rounds=rounds, momentum=momentum, seed=seed)
            for attack, defence in ((ALONE, HONEST), *product(wanted, rules)):
                one = AttackRun(algorithm=algorithm, attack=attack, defence=defence, seed=seed)
                if one not in stored.found:
                    stored.add(one, _one(settings, cohort, one, honest))
                    typer.echo(f"seed {seed}, {algorithm}, {attack}, {defence}: {stored.found[one].accuracy:.1f} %")
        write_text(out / "table.md", table(stored.found))
        write_text(out / "table.csv", csv_text([CSV_HEADS, *csv_rows(stored.found)]))
    typer.echo(table(stored.found), nl=False)


class StoredOutcomes:
    """Outcomes in one JSON file, written anew after every run, so that a killed command resumes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else "[]"
        try:
            self.found: dict[AttackRun, AttackOutcome] = dict(map(self._read, json.loads(text)))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput("out", str(path), "outcomes of this command", "Use another folder.") from error

    @staticmethod
    def _read(stored: dict[str, Any]) -> tuple[AttackRun, AttackOutcome]:
        outcome = stored["outcome"]
        return AttackRun(**stored["run"]), AttackOutcome(**{**outcome, "accuracies": tuple(outcome["accuracies"])})

    def add(self, run: AttackRun, outcome: AttackOutcome) -> None:
        self.found[run] = outcome
        lines = [json.dumps({"run": asdict(run), "outcome": asdict(one)}) for run, one in self.found.items()]
        write_text(self._path, "[\n" + ",\n".join(lines) + "\n]\n")


def _settings(cohort: CohortSettings, algorithm: str, *, rounds: int, momentum: float, seed: int) -> RunSettings:
    return RunSettings(
        cohort=cohort,
        model=MODELS.get(cohort.data, "lenet5"),
        algorithm=algorithm,
        rounds=rounds,
        sgd=Sgd(momentum=momentum),
        seed=seed,
        anchor=AnchorSettings(epochs=5),
    )


def _one(settings: RunSettings, cohort: Cohort, run: AttackRun, honest: int) -> AttackOutcome:
    from scripts.experiments.attacks.arena import run_attack  # imports torch

    rule = "none" if run.defence == "nothing" else run.defence
    with tempfile.TemporaryDirectory() as folder:
        return run_attack(
            settings.model_copy(update={"options": {"robust": rule}}),
            cohort,
            None if run.attack == ALONE else ATTACKS[run.attack],
            honest=honest,
            admission=run.defence != "nothing",
            folder=Path(folder),
        )
