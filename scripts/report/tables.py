"""Builds the tables of a comparison (a row per algorithm, differences between them) for terminal, csv and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from rich.table import Table

from fedap_core.metrics import QUALITIES
from protocol.plan import TAIL_ROUNDS
from scripts.report.algorithms import spelled
from scripts.report.page.wording import share
from scripts.run.chance import PairedDifference
from scripts.run.results import (
    Headline,
    Summary,
    by_algorithm,
    headline,
    is_alone,
    positions,
    worse_off,
)


def rows(summaries: Sequence[Summary]) -> list[Headline]:
    """Return one headline per algorithm of a comparison, in the order of first appearance."""
    return [headline(runs) for runs in by_algorithm(summaries).values()]


def _last(row: Headline) -> str:
    return share(row.last) + ("" if row.deviation is None else f" ± {share(row.deviation)}")


_HEADS = ("algorithm", "last round %", "last {} rounds %", "worst client %", "10th percentile %", "converged in round")
_OPTIONAL = {"selected": "best validation round %", "delivered": "last round as delivered %"}
"""Figures that only some comparisons have: there is a column if any algorithm has a value."""


def _columns(table: Sequence[Headline]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return (heads, rows) of the main table."""
    also = [name for name in _OPTIONAL if any(getattr(row, name) is not None for row in table)]
    body = [
        (
            row.algorithm,
            _last(row),
            *map(share, (row.tail, row.worst, row.tenth_percentile)),
            "–" if row.converged is None else f"{row.converged:.0f}",
            *(share(getattr(row, name)) for name in also),
        )
        for row in table
    ]
    heads = tuple(head.format(_tail_rounds(table)) for head in _HEADS)
    return (*heads, *(_OPTIONAL[name] for name in also)), body


def _tail_rounds(table: Sequence[Headline]) -> int:
    """Return how many rounds the means of the last rounds cover."""
    return max((row.tail_rounds for row in table), default=TAIL_ROUNDS)


def terminal_table(table: Sequence[Headline], title: str) -> Table:
    """Return the main table for rich; the best mean is bold."""
    best = max(row.last for row in table)
    return _terminal(*_columns(table), title, [row.last == best for row in table])


def _terminal(heads: Sequence[str], body: Sequence[Sequence[str]], title: str, bold: Sequence[bool]) -> Table:
    shown = Table(title=title)
    for number, head in enumerate(heads):
        needed = max(map(len, [*head.split(), *(cells[number] for cells in body)]))  # names get the rest of the width
        if number == 0:
            shown.add_column(head, overflow="fold")  # a truncated name would be ambiguous
        else:
            shown.add_column(head, justify="right", max_width=needed)
    for cells, is_bold in zip(body, bold, strict=True):
        shown.add_row(*cells, style="bold" if is_bold else None)
    return shown


QUALITY_NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "auroc": "AUROC",
    "sensitivity": "sensitivity at 95 % specificity",
    "calibration_error": "calibration error",
}
"""Display names of `metrics.QUALITIES`."""

QUALITIES_NOTE = (
    "Means over clients in the last round. AUROC and sensitivity: each class against the rest, over the clients whose "
    "test samples have at least two classes; a dash where they are undefined. Calibration error: less is better."
)


def _quality_cells(table: Sequence[Headline]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return (heads, rows) of the qualities beside accuracy."""
    body = [(row.algorithm, *(share(row.qualities.get(name)) for name in QUALITY_NAMES)) for row in table]
    return ("algorithm", *(f"{name}, %" for name in QUALITY_NAMES.values())), body


def terminal_qualities(table: Sequence[Headline]) -> Table:
    """Return the table of qualities that accuracy hides, for rich."""
    return _terminal(*_quality_cells(table), "Beside accuracy", [False] * len(table))


def markdown_qualities(table: Sequence[Headline]) -> str:
    """Return the same table as Markdown, with an explanation of its columns."""
    return f"{plain_table(*_quality_cells(table))}\n{QUALITIES_NOTE}\n"


_DIFFERENCE_HEADS = ("algorithm", "worse off than alone", "to alone", "to the best", "verdict")
_CHOICE_HEAD = "with the choice %"

DIFFERENCES_NOTE = (
    "Differences in points of mean accuracy (last 10 rounds; the last round in runs of fewer than 20), paired over "
    "client and seed, with 95 % bootstrap intervals; clients that are the same in every seed count once. Worse off "
    "than alone: share of clients below Base."
)
CHOICE_NOTE = (
    "With the choice: mean test accuracy of the last round where every client keeps the algorithm's model or Base's, "
    "whichever is better on its validation samples."
)


def _difference_cells(summaries: Sequence[Summary]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return (heads, rows); there is a column for the choice if validation samples were held back."""
    found = positions(summaries)
    chooses = any(one.with_choice is not None for one in found)
    body = [
        (
            one.algorithm,
            "–" if one.worse_off is None else f"{100 * one.worse_off:.0f} %",
            written_difference(one.to_alone),
            written_difference(one.to_best),
            *([share(one.with_choice)] if chooses else []),
            "best" if one.to_best is None else one.to_best.verdict,
        )
        for one in found
    ]
    *heads, last = _DIFFERENCE_HEADS
    return (*heads, *([_CHOICE_HEAD] if chooses else []), last), body


def differences_note(summaries: Sequence[Summary]) -> str:
    """Explain the columns."""
    chooses = any(one.with_choice is not None for one in positions(summaries))
    return f"{DIFFERENCES_NOTE} {CHOICE_NOTE}" if chooses else DIFFERENCES_NOTE


def written_difference(found: PairedDifference | None) -> str:
    """Write a difference as `+1.2 [+0.4, +2.0]` in points; a dash if there is nothing to compare with."""
    if found is None:
        return "–"
    if not found.is_bounded:
        return f"{100 * found.mean:+.1f} [–]"
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def terminal_differences(summaries: Sequence[Summary]) -> Table:
    """Return each algorithm's differences to the best and to every client training alone, for rich."""
    heads, body = _difference_cells(summaries)
    return _terminal(heads, body, "Differences", [cells[-1] == "best" for cells in body])


def markdown_differences(summaries: Sequence[Summary]) -> str:
    """Return the same table as Markdown, with an explanation of its columns."""
    return f"{plain_table(*_difference_cells(summaries))}\n{differences_note(summaries)}\n"


def markdown_table(table: Sequence[Headline]) -> str:
    """Return the main table as Markdown."""
    return plain_table(*_columns(table))


def beside_paper(table: Sequence[Headline], paper: Mapping[str, float] | None = None) -> str:
    """Return algorithms as columns, our figures as rows (mean ± deviation over seeds, best bold), the paper's below.

    paper: algorithm -> per cent, for the same data set only; None if the paper has no figures.
    """
    seeds = max(row.seeds for row in table)
    over = f"mean ± deviation of {seeds} seeds" if seeds > 1 else "one seed"
    last = [_last(row) for row in table]
    converged = ["–" if row.converged is None else f"{row.converged:.0f}" for row in table]
    tails = _bold_best([share(row.tail) for row in table], [row.tail for row in table])
    counted = "ten" if _tail_rounds(table) == TAIL_ROUNDS else _tail_rounds(table)
    lines = [
        ("", [spelled(row.algorithm) for row in table]),
        (f"last round, {over}", _bold_best(last, [row.last for row in table])),
        (f"mean of the last {counted} rounds", tails),
        ("worst client, last round", [share(row.worst) for row in table]),
        ("converged in round", converged),
    ]
    if paper:
        known = [paper.get(row.algorithm) for row in table]
        cells = ["–" if value is None else f"{value:.2f}" for value in known]
        lines.append(("the paper", _bold_best(cells, [-1.0 if value is None else value for value in known])))
    head, *body = [[name, *cells] for name, cells in lines]
    return plain_table(head, body)


def _bold_best(cells: Sequence[str], values: Sequence[float]) -> list[str]:
    return [f"**{cell}**" if value == max(values) else cell for cell, value in zip(cells, values, strict=True)]


def plain_table(heads: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    """Return any table as Markdown."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in body)]) + "\n"


def csv_table(summaries: Sequence[Summary], clients: Sequence[str], protocol: str) -> str:
    """Return one line per run, with a column per client, in per cent."""
    figures = ("last", "tail", "selected", "worst", "tenth_percentile", "worse_off", *QUALITIES)
    lines: list[list[object]] = [["algorithm", "seed", "protocol", "rounds", "converged", *figures, *clients]]
    for run in summaries:
        alone = [one for one in summaries if is_alone(one.algorithm)]
        lost = None if is_alone(run.algorithm) else worse_off([run], alone)
        numbers = [run.last, run.tail, run.selected, run.worst, run.tenth_percentile, lost]
        numbers += [run.qualities.get(name) for name in QUALITIES]
        cells = ["" if n is None else f"{100 * n:.3f}" for n in (*numbers, *run.per_client)]
        converged = "" if run.converged is None else run.converged
        lines.append([run.algorithm, run.seed, protocol, run.rounds, converged, *cells])
    return csv_text(lines)


def csv_text(lines: Sequence[Sequence[object]]) -> str:
    """Return rows as csv."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
