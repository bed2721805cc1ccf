"""The comparison table: a row per algorithm, mean and deviation over seeds; on the terminal, as csv, as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rich.table import Table

from scripts.report.algorithms import spelled
from scripts.run.run_folder import Summary


@dataclass(frozen=True, kw_only=True)
class Row:
    """One algorithm over all seeds; accuracies in per cent."""

    algorithm: str
    seeds: int
    last: float
    last_deviation: float | None
    tail: float
    worst_client: float
    converged: float | None
    selected: float | None


def rows(summaries: Sequence[Summary]) -> list[Row]:
    """Summaries of one comparison, grouped by algorithm in the order of their first appearance."""
    names = list(dict.fromkeys(summary.algorithm for summary in summaries))
    return [_row(name, [s for s in summaries if s.algorithm == name]) for name in names]


def _row(name: str, runs: Sequence[Summary]) -> Row:
    last = [100 * run.last for run in runs]
    converged = [run.converged for run in runs if run.converged is not None]
    selected = [100 * run.selected for run in runs if run.selected is not None]
    return Row(
        algorithm=name,
        seeds=len(runs),
        last=fmean(last),
        last_deviation=stdev(last) if len(last) > 1 else None,
        tail=fmean(100 * run.tail for run in runs),
        worst_client=fmean(100 * min(run.per_client) for run in runs),
        converged=fmean(converged) if converged else None,
        selected=fmean(selected) if selected else None,
    )


def _cells(row: Row) -> tuple[str, ...]:
    deviation = "" if row.last_deviation is None else f" ± {row.last_deviation:.2f}"
    converged = "–" if row.converged is None else f"{row.converged:.0f}"
    cells = (row.algorithm, f"{row.last:.2f}{deviation}", f"{row.tail:.2f}", f"{row.worst_client:.2f}", converged)
    return cells if row.selected is None else (*cells, f"{row.selected:.2f}")


def _heads(table: Sequence[Row]) -> tuple[str, ...]:
    heads = ("algorithm", "last round %", "last 10 rounds %", "worst client %", "converged in round")
    return (*heads, "best validation round %") if any(row.selected is not None for row in table) else heads


def terminal_table(table: Sequence[Row], title: str) -> Table:
    """For rich; the best mean is bold."""
    best = max(row.last for row in table)
    shown = Table(title=title)
    for number, head in enumerate(_heads(table)):
        shown.add_column(head, justify="left" if number == 0 else "right")
    for row in table:
        shown.add_row(*_cells(row), style="bold" if row.last == best else None)
    return shown


def markdown_table(table: Sequence[Row]) -> str:
    """The same for a README."""
    return plain_table(_heads(table), [_cells(row) for row in table])


def beside_paper(table: Sequence[Row], paper: Mapping[str, float] | None = None) -> str:
    """Algorithms as columns, ours in rows (mean ± deviation over seeds; the best is bold), the paper's means below.

    paper: algorithm -> per cent, for the same data set only; None where the paper has none.
    """
    seeds = max(row.seeds for row in table)
    over = f"mean ± deviation of {seeds} seeds" if seeds > 1 else "one seed"
    last = [f"{row.last:.2f}" + ("" if row.last_deviation is None else f" ± {row.last_deviation:.2f}") for row in table]
    converged = ["–" if row.converged is None else f"{row.converged:.0f}" for row in table]
    lines = [
        ("", [spelled(row.algorithm) for row in table]),
        (f"last round, {over}", _bold_best(last, [row.last for row in table])),
        ("mean of the last ten rounds", _bold_best([f"{row.tail:.2f}" for row in table], [row.tail for row in table])),
        ("worst client, last round", [f"{row.worst_client:.2f}" for row in table]),
        ("converged in round", converged),
    ]
    if paper:
        known = [paper.get(row.algorithm) for row in table]
        cells = ["–" if value is None else f"{value:.2f}" for value in known]
        lines.append(("the paper", _bold_best(cells, [-1.0 if value is None else value for value in known])))
    head, *body = ["| " + " | ".join([name, *cells]) + " |" for name, cells in lines]
    return "\n".join([head, "|" + "---|" * (len(table) + 1), *body]) + "\n"


def _bold_best(cells: Sequence[str], values: Sequence[float]) -> list[str]:
    return [f"**{cell}**" if value == max(values) else cell for cell, value in zip(cells, values, strict=True)]


def plain_table(heads: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    """Any table as Markdown."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in body)]) + "\n"


def csv_table(summaries: Sequence[Summary], clients: Sequence[str], protocol: str) -> str:
    """One line per run, every client a column, in per cent."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["algorithm", "seed", "protocol", "rounds", "last", "tail", "converged", "selected", *clients])
    for run in summaries:
        numbers = [run.last, run.tail, run.selected, *run.per_client]
        last, tail, selected, *per_client = ["" if n is None else f"{100 * n:.3f}" for n in numbers]
        converged = "" if run.converged is None else run.converged
        writer.writerow([run.algorithm, run.seed, protocol, run.rounds, last, tail, converged, selected, *per_client])
    return text.getvalue()
