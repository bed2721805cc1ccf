"""What a target leaves behind: csv, figure, and one page of Markdown with command, settings, versions and verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scripts.experiments.reproduce.choice import Choice
from scripts.experiments.reproduce.target import Findings, Plan, Target
from scripts.experiments.run_folder import write_text
from scripts.experiments.versions import versions
from scripts.report.figures import save_figure


def write_findings(
    target: Target, choice: Choice, plans: tuple[Plan, ...], findings: Findings, *, command: str, root: Path
) -> Path:
    """STEM.csv, STEM.png, STEM.svg and STEM.md in `root`; returns the path of the page."""
    root.mkdir(parents=True, exist_ok=True)
    write_text(root / f"{choice.stem}.csv", findings.csv)
    save_figure(findings.figure, root / choice.stem)
    page = root / f"{choice.stem}.md"
    write_text(page, page_text(target, choice, plans, findings, command=command))
    return page


def page_text(target: Target, choice: Choice, plans: tuple[Plan, ...], findings: Findings, *, command: str) -> str:
    """The page."""
    source = "" if target.stated else "; the paper does not say which data it shows"
    parts = [
        f"# {choice.title}",
        f"In the paper: {target.where}{source}.",
        f"Made by `{command}`.",
        f"![{choice.title}]({choice.stem}.png)",
    ]
    for heading, table in findings.tables:
        parts += [f"**{heading}**", table.rstrip()]
    if findings.verdicts:
        parts.append("## What the paper claims, and what our numbers say")
        parts.append("\n".join(f"- {v.claim} **{v.word.capitalize()}:** {v.numbers}" for v in findings.verdicts))
    notes = [*choice.notes, *findings.notes]
    if notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in notes)]
    if target.divides:
        parts += ["## Settings", "\n".join(f"- {settings_line(target, plan)}" for plan in plans)]
    parts.append("Versions: " + ", ".join(f"{name} {number}" for name, number in versions().items()) + ".")
    return "\n\n".join(parts) + "\n"


def settings_line(target: Target, plan: Plan) -> str:
    """What the runs on one data set were; what differs between them is listed."""
    runs = [run for cell in target.cells(plan) for run in cell.runs] or [plan.base]
    cohort, first = runs[0].cohort, runs[0]
    options = "".join(f", {key} {value}" for key, value in cohort.data_options.items())
    clients = (
        f"`{cohort.data}`{options}: {_all(run.cohort.clients for run in runs)} clients by {cohort.partition} with "
        f"α = {_all(f'{run.cohort.alpha:g}' for run in runs)}, protocol {cohort.protocol_label}"
    )
    if not target.cells(plan):
        return f"{clients}, seed {plan.base.seed}"
    return (
        f"{clients}, model {first.model}, rounds {_all(run.rounds for run in runs)}, local epochs "
        f"{_all(run.epochs for run in runs)}, SGD with {first.learning_rate:g} and batches of {first.batch_size}, "
        f"evaluated every {_all(run.evaluate_every for run in runs)}, anchor {first.anchor.kind} "
        f"({first.anchor.share:.0%} of the training halves), seeds {_all(run.seed for run in runs)}"
    )


def _all(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))
