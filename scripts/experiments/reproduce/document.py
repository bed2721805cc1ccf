"""What a target leaves behind: csv, figure, and one page of Markdown with command, settings, versions and verdicts."""

from __future__ import annotations

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
    notes = [*choice.remarks, *findings.notes]
    if notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in notes)]
    parts += ["## Settings", "\n".join(f"- {settings_line(plan)}" for plan in plans)]
    parts.append("Versions: " + ", ".join(f"{name} {number}" for name, number in versions().items()) + ".")
    return "\n\n".join(parts) + "\n"


def settings_line(plan: Plan) -> str:
    """What all runs on one data set share; what a target varies stands in its table and csv."""
    run, cohort = plan.base, plan.base.cohort
    options = "".join(f", {key} {value}" for key, value in cohort.data_options.items())
    seeds = ", ".join(str(seed) for seed in plan.scale.seeds)
    return (
        f"`{cohort.data}`{options}: {cohort.clients} clients by {cohort.partition} with α = {cohort.alpha:g}, protocol "
        f"{cohort.protocol_label}, model {run.model}, {run.rounds} rounds of {run.epochs} local epoch, SGD with "
        f"{run.learning_rate:g} and batches of {run.batch_size}, anchor {run.anchor.kind} ({run.anchor.share:.0%} of "
        f"the training halves), seeds {seeds}"
    )
