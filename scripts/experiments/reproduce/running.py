"""Runs a target, from choosing its data to printing its verdicts, and lists all targets. Options are read elsewhere."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.experiments.reproduce.catalogue import MEASURED_MIN, TARGETS, find_target
from scripts.experiments.reproduce.choice import MissingData, choose
from scripts.experiments.reproduce.document import Made, write_findings
from scripts.experiments.reproduce.results import run_cells
from scripts.experiments.reproduce.target import Job, Scale, Target, make_plan
from scripts.experiments.sweep import SweepOptions
from scripts.run.run_folder import RunFolder

_WIDE = 7


def run_named(name: str, asked: list[str], scale: Scale, sweep: SweepOptions, console: Console) -> None:
    """Run one target, or `all` those whose data are available."""
    if name != "all":
        run_target(find_target(name), asked, scale, sweep, console)
        return
    for target in TARGETS.values():
        try:
            run_target(target, asked, scale, sweep, console)
        except MissingData as error:
            console.print(f"{target.name} is left out. {error}", style="yellow", soft_wrap=True, markup=False)


def run_target(target: Target, asked: list[str], scale: Scale, sweep: SweepOptions, console: Console) -> Path:
    """Run a target, write and print tables and verdicts, and return the page."""
    choice = choose(target, asked, quick=scale.quick)
    for remark in choice.remarks:
        console.print(remark, style="yellow", soft_wrap=True, markup=False)
    plans = tuple(make_plan(data, scale) for data in choice.data)
    cells = [cell for plan in plans for cell in target.cells(plan)]
    asked_for = [RunFolder(sweep.root, run) for cell in cells for run in cell.runs]
    found = sum(folder.is_complete() for folder in asked_for)
    began = time.monotonic()
    results = run_cells(cells, replace(sweep, keep_models=sweep.keep_models or target.keep_models), console)
    findings = target.work(Job(plans=plans, root=sweep.root, title=choice.title), results)
    made = Made(target=target, choice=choice, plans=plans, folders=tuple(asked_for), command=command_line())
    page = write_findings(made, findings, sweep.root)
    console.print(f"\n{choice.title}; in the paper {target.where}", style="bold", soft_wrap=True, markup=False)
    console.print(shown_tables(findings.tables[0][1]))
    for verdict in findings.verdicts:
        console.print(f"{verdict.word.upper()}: {verdict.claim} {verdict.numbers}", soft_wrap=True, markup=False)
    took = f"{time.monotonic() - began:.0f} s, {found} of {len(asked_for)} runs existed already"
    console.print(f"Page: {page}; CSV, PNG and SVG next to it ({took})", soft_wrap=True, markup=False)
    return page


def print_list(console: Console) -> None:
    """Print all targets, one line each, with measured durations if there are any."""
    for target in TARGETS.values():
        minutes, data = MEASURED_MIN.get(target.name, (0.0, ""))
        took = f"; full {minutes:g} min ({data})" if minutes else ""
        console.print(f"{target.name:<14}{target.where:<19}{target.shows}{took}", soft_wrap=True, markup=False)
    console.print(f"{'all':<14}{'':<19}Every target whose data are available", soft_wrap=True, markup=False)
    console.print("Data sets are the paper's; --data NAME uses others, under their own names. --quick takes minutes.")


def shown_tables(markdown: str) -> Table:
    """Convert a Markdown table for the terminal, transposed if it has more columns than fit."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in markdown.splitlines()]
    head, *body = [lines[0], *lines[2:]]
    if len(head) > _WIDE:
        head, *body = [list(column) for column in zip(head, *body, strict=True)]
    table = Table()
    for number, cell in enumerate(head):
        table.add_column(cell, justify="left" if number == 0 else "right")
    for row in body:
        table.add_row(*(Text(cell.replace("**", ""), style="bold" if "**" in cell else "") for cell in row))
    return table


def command_line() -> str:
    """Return the command as typed, without --out: the user's folder means nothing to the page's readers."""
    kept: list[str] = []
    for before, word in pairwise(["fedap-lab", *sys.argv[1:]]):
        if word != "--out" and before != "--out" and not word.startswith("--out="):
            kept.append(word)
    return shlex.join(["fedap-lab", *kept])
