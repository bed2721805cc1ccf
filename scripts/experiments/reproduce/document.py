"""Writes a target's results: csv, figure, and one Markdown page with command, settings, versions and verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.experiments.reproduce.choice import ChosenData
from scripts.experiments.reproduce.target import DataSetPlan, Findings, Target
from scripts.report.figures import save_figure
from scripts.run.run_folder import RunFolder, write_text
from scripts.run.versions import versions

_BATCHES = {"even": "even batches", "reference": "batches (full ones and a rest)"}


@dataclass(frozen=True, kw_only=True)
class Made:
    """Origin of findings: the target, its data, the runs behind it, and the command that was used."""

    target: Target
    choice: ChosenData
    plans: tuple[DataSetPlan, ...]
    folders: tuple[RunFolder, ...]
    command: str


def write_findings(made: Made, findings: Findings, root: Path) -> Path:
    """Write STEM.csv, STEM.png, STEM.svg and STEM.md to `root` and return the path of the page."""
    root.mkdir(parents=True, exist_ok=True)
    stem = made.choice.stem
    write_text(root / f"{stem}.csv", findings.csv)
    save_figure(findings.figure, root / stem)
    for end, _, figure in findings.more:
        save_figure(figure, root / f"{stem}-{end}")
    page = root / f"{stem}.md"
    write_text(page, page_text(made, findings))
    return page


def page_text(made: Made, findings: Findings) -> str:
    """Return the page as Markdown."""
    target, choice = made.target, made.choice
    source = "" if target.stated else "; the paper does not say which data it shows"
    parts = [
        f"# {choice.title}",
        f"In the paper: {target.where}{source}.",
        f"Made by `{made.command}`.",
        f"![{choice.title}]({choice.stem}.png)",
    ]
    for heading, table in findings.tables:
        parts += [f"**{heading}**", table.rstrip()]
    if findings.verdicts:
        parts.append("## What the paper claims, and what our numbers say")
        parts.append("\n".join(f"- {v.claim} **{v.word.capitalize()}:** {v.numbers}" for v in findings.verdicts))
    parts += [f"![{title}]({choice.stem}-{end}.png)" for end, title, _ in findings.more]
    notes = [*choice.notes, *findings.notes]
    if notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in notes)]
    if target.divides:
        parts += ["## Settings", "\n".join(f"- {settings_line(target, plan)}" for plan in made.plans)]
    parts += [f"Versions: {text}." for text in used_versions(made.folders)]
    return "\n\n".join(parts) + "\n"


def used_versions(folders: tuple[RunFolder, ...]) -> list[str]:
    """Return the versions that computed the runs, each combination once; without runs, the installed ones."""
    noted = [json.loads((folder.path / "settings.json").read_text(encoding="utf-8"))["versions"] for folder in folders]
    listed = [", ".join(f"{name} {number}" for name, number in found.items()) for found in noted or [versions()]]
    return [text for text in dict.fromkeys(listed) if text]


def settings_line(target: Target, plan: DataSetPlan) -> str:
    """Describe the runs on one data set; values that differ between them are listed."""
    runs = [run for cell in target.cells(plan) for run in cell.runs] or [plan.base]
    cohort, sgd, first = runs[0].cohort, runs[0].sgd, runs[0]
    options = "".join(f", {key} {value}" for key, value in cohort.data_options.items())
    clients = (
        f"`{cohort.data}`{options}: {_all(run.cohort.clients for run in runs)} clients by {cohort.partition} with "
        f"α = {_all(f'{run.cohort.alpha:g}' for run in runs)}, protocol {cohort.protocol_label}"
    )
    if not target.cells(plan):
        return f"{clients}, seed {plan.base.seed}"
    return (
        f"{clients}, model {first.model}, rounds {_all(run.rounds for run in runs)}, local epochs "
        f"{_all(run.sgd.epochs for run in runs)}, SGD with {sgd.learning_rate:g} and {_BATCHES[sgd.batches]} of "
        f"{sgd.batch_size}, evaluated every {_all(run.evaluate_every for run in runs)}, anchor {first.anchor.kind} "
        f"({first.anchor.share:.0%} of the training halves), seeds {_all(run.seed for run in runs)}"
    )


def _all(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))
