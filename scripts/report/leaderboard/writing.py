"""Writes the leaderboard: a self-contained HTML page, a csv with a line per run, tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedap_core.metrics import QUALITIES
from scripts.report.algorithms import style
from scripts.report.leaderboard.drawing import byte_chart, rank_chart, round_chart
from scripts.report.leaderboard.standings import BoardRow, BoardStanding, RecipeStanding
from scripts.report.page.headline import traffic
from scripts.report.page.wording import percent, share, size
from scripts.report.page.writing import environment, write_page
from scripts.report.tables import (
    QUALITIES_NOTE,
    QUALITY_NAMES,
    csv_text,
    markdown_qualities,
    plain_table,
    written_difference,
)


def write_leaderboard(recipes: Sequence[RecipeStanding], root: Path, *, facts: Sequence[str]) -> Path:
    """Write `leaderboard.html`, `.csv` and `.md` to a folder and return the page's path."""
    write_page(as_csv(recipes), root / "leaderboard.csv")
    write_page(as_markdown(recipes), root / "leaderboard.md")
    return write_page(as_html(recipes, facts), root / "leaderboard.html")


def as_html(recipes: Sequence[RecipeStanding], facts: Sequence[str]) -> str:
    """Return the page as text."""
    colours = {number: style(number) for one in recipes for number in one.colours.values()}
    charts = {
        one.title: rank_chart(one.ranking, one.colours, described=f"Average ranks, {one.title}") for one in recipes
    }
    boards = {
        (one.title, board.title): (round_chart(board), byte_chart(board)) for one in recipes for board in one.boards
    }
    template = environment().get_template("leaderboard.html.j2")
    return template.render(
        recipes=recipes,
        ranks=charts,
        charts=boards,
        facts=facts,
        styles=colours,
        qualities=QUALITY_NAMES,
        qualities_note=QUALITIES_NOTE,
    )


def as_markdown(recipes: Sequence[RecipeStanding]) -> str:
    """Return the ranks and one table for each data set as Markdown."""
    parts = []
    for one in recipes:
        parts.append(f"## {one.title[0].upper()}{one.title[1:]}\n")
        if len(one.boards) > 1:
            parts.append(plain_table(RANK_HEADS, rank_cells(one)))
        parts.extend(f"### {board.title}\n\n{_board_table(board)}" for board in one.boards)
    return "\n".join(parts)


def _board_table(board: BoardStanding) -> str:
    main = plain_table(board_heads(board), [board_cells(row) for row in board.rows])
    return f"{main}\n{markdown_qualities([row.head.figures for row in board.rows])}"


RANK_HEADS = ("algorithm", "average rank", "of the worst client", "mean %", "first or not told apart from it")


def rank_cells(one: RecipeStanding) -> list[tuple[str, ...]]:
    """Return the cells of the rank table over all sets of a recipe."""
    return [
        (
            ranked.name,
            f"{ranked.mean:.1f}",
            f"{ranked.worst_mean:.1f}",
            f"{100 * one.means[ranked.name]:.1f}",
            f"{one.firsts[ranked.name]} of {len(one.boards)}",
        )
        for ranked in one.ranking.algorithms
    ]


def board_heads(board: BoardStanding) -> tuple[str, ...]:
    to = percent(board.target)
    return (
        "algorithm", f"{board.compared_over} %", "difference to the first", "verdict", "worst client %",
        "10th percentile %", "worse off than alone", "last round as delivered %", f"rounds to {to}", f"bytes to {to}",
    )  # fmt: skip


def board_cells(row: BoardRow) -> tuple[str, ...]:
    """Return the cells of one algorithm on one set."""
    figures, position = row.head.figures, row.head.position
    return (
        row.head.name,
        share(row.compared),
        written_difference(position.to_best),
        row.verdict,
        share(row.worst),
        share(row.tenth_percentile),
        "–" if position.worse_off is None else f"{100 * position.worse_off:.0f} %",
        share(figures.delivered),
        "–" if row.rounds_to is None else str(row.rounds_to),
        "–" if row.bytes_to is None else size(row.bytes_to),
    )


def as_csv(recipes: Sequence[RecipeStanding]) -> str:
    """Return one line per run: accuracies in per cent, bytes per participant over the whole run."""
    figures = ("last_ten", "last", "delivered", "worst_of_last", "tenth_percentile_of_last", *QUALITIES)
    heads = ["recipe", "data", "algorithm", "seed", "rounds", "place", "verdict", *figures, "bytes"]
    rows = ((one, board, row) for one in recipes for board in one.boards for row in board.rows)
    return csv_text([heads, *(line for place in rows for line in _lines(*place))])


def _lines(one: RecipeStanding, board: BoardStanding, row: BoardRow) -> list[list[object]]:
    runs = {run.seed: run for a in board.study.algorithms if a.name == row.head.name for run in a.runs}
    lines = []
    for summary in board.study.summaries[row.head.name]:
        numbers = [summary.tail, summary.last, summary.delivered, summary.worst, summary.tenth_percentile]
        values = [*numbers, *(summary.qualities.get(name) for name in QUALITIES)]
        sent = traffic(runs[summary.seed], board.study.round_no)
        named: list[object] = [one.title.partition(":")[0], board.title, row.head.name, summary.seed, summary.rounds]
        cells = ["" if value is None else f"{100 * value:.3f}" for value in values]
        lines.append([*named, row.place, row.verdict, *cells, "" if sent is None else round(sent)])
    return lines
