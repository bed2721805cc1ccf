"""`fedap-lab attacks`: a table of attack x algorithm x defence, with one hostile member among honest ones.

Reads options, makes missing runs, prints and writes; decides nothing. A killed command resumes where it was.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fedap_core.errors import InvalidInput, require_known
from fedap_core.robust import RULES
from protocol.plan import Sgd
from scripts.experiments.attacks.kinds import ATTACKS
from scripts.report.tables import plain_table
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import AnchorSettings, CohortSettings, RunSettings

MODELS = {"watch": "har-cnn", "har": "har-cnn"}
DEFENCES = ("nothing", *RULES)
"""nothing: refuse only values that are not finite; none: admission checks alone; others: with a robust mixing rule."""

ALONE = "alone"
"""The honest members by themselves: the baseline of all comparisons."""


def attacks(
    out: Annotated[Path, typer.Option(help="Folder for table.md and outcomes.json.")] = Path("attacks"),
    data: Annotated[str, typer.Option(help="Data set: watch, har, organamnist.")] = "watch",
    partition: Annotated[str, typer.Option(help="site, dirichlet-pairs, dirichlet or iid.")] = "site",
    algorithms: Annotated[str, typer.Option(help="Comma-separated.")] = "fedap,fedavg,fedbn,fedper",
    attacks: Annotated[str, typer.Option(help="Comma-separated; default: all.")] = ",".join(ATTACKS),
    defences: Annotated[str, typer.Option(help=f"Of {', '.join(DEFENCES)}.")] = "nothing,limit",
    honest: Annotated[int, typer.Option(help="Number of honest members; one hostile member is added.")] = 4,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 30,
    momentum: Annotated[float, typer.Option(help="Momentum of local training.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of data, models and attacks.")] = 0,
) -> None:
    """Measure how much one hostile member costs the honest ones, for each attack and defence."""
    wanted, rules = attacks.split(","), defences.split(",")
    for name in wanted:
        require_known("attack", name, ATTACKS)
    for name in rules:
        require_known("defence", name, DEFENCES)
    described = CohortSettings.model_validate({"data": data, "partition": partition, "clients": honest + 1})
    cohort = make_cohort(described, seed)
    if len(cohort.clients) <= honest:
        raise InvalidInput("honest", honest, f"fewer than the {len(cohort.clients)} clients of {data}")
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "outcomes.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for algorithm in algorithms.split(","):
        run = _settings(described, algorithm, rounds=rounds, momentum=momentum, seed=seed)
        for attack, defence in ((ALONE, "none"), *product(wanted, rules)):
            key = f"{algorithm}/{attack}/{defence}"
            if key not in found:
                typer.echo(f"{key} …")
                found[key] = _one(run, cohort, attack, defence, honest)
                kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                typer.echo(f"{key}: {found[key]['accuracy']:.1f} %")
        (out / "table.md").write_text(table(found), encoding="utf-8")
    typer.echo(table(found), nl=False)


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


def _one(run: RunSettings, cohort: Cohort, attack: str, defence: str, honest: int) -> dict[str, Any]:
    from scripts.experiments.attacks.arena import run_attack  # imports torch

    rule = "none" if defence == "nothing" else defence
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_attack(
            run.model_copy(update={"options": {"robust": rule}}),
            cohort,
            None if attack == ALONE else ATTACKS[attack],
            honest=honest,
            admission=defence != "nothing",
            folder=Path(folder),
        )
    return dataclasses.asdict(outcome)


def table(found: dict[str, Any]) -> str:
    """Return the table: rows are attacks, columns algorithm and defence; honest members' mean accuracy, refusals."""
    columns = list(dict.fromkeys((key.split("/")[0], key.split("/")[2]) for key in found if f"/{ALONE}/" not in key))
    alone = [found.get(f"{algorithm}/{ALONE}/none") for algorithm, _ in columns]
    body = [[ALONE, *("" if one is None else f"{one['accuracy']:.1f}" for one in alone)]]
    body += [
        [attack, *(_cell(found.get(f"{algorithm}/{attack}/{defence}")) for algorithm, defence in columns)]
        for attack in dict.fromkeys(key.split("/")[1] for key in found if f"/{ALONE}/" not in key)
    ]
    return plain_table(["attack", *(f"{algorithm}, {defence}" for algorithm, defence in columns)], body)


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return ""
    refused = sum(outcome["refused"].values())
    what = f" ({refused} refused{', excluded' if outcome['excluded'] else ''})" if refused else ""
    return f"{outcome['accuracy']:.1f}{what}"
