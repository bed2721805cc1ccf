"""The tables of the leaderboard in README and docs, made from the published runs.

`python -m tests.documents.leaderboard` writes them into the pages. Decides their rows, order and marks; the figures are
those of the leaderboard's page. What the text says of FedAP+ can be read off its table of expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from scripts.experiments.leaderboard.boards import BOARD_DATA, PAPER, USER, Restriction, make_boards
from scripts.experiments.leaderboard.running import standings
from scripts.report.algorithms import spelled
from scripts.report.leaderboard.standings import BoardRow, BoardStanding, RecipeStanding
from scripts.report.page.wording import ordinal, percent, points, size
from scripts.report.tables import plain_table, written_difference
from scripts.run.results import difference
from tests.architecture.sources import ROOT

RUNS = ROOT / "docs/results/leaderboard"
SETS = ("watch", "har-people", "har", "chest", "organamnist")
IN_README = ("fedap-plus", "ditto", "fedap", "fedbn", "fedper", "fedavg", "base")
Number = TypeVar("Number", int, float)
PLUS, FEDAP = spelled("fedap-plus"), spelled("fedap")


@cache
def standing(recipe: str) -> RecipeStanding:
    """What the published runs under a recipe say, sets in the order of the leaderboard's page."""
    sets = tuple(name for name in BOARD_DATA if name in SETS)
    (found,) = standings(make_boards(Restriction(data=sets, recipes=(recipe,))), RUNS)
    return found


def boards(recipe: str) -> Mapping[str, BoardStanding]:
    """The sets in the order of the tables."""
    by_title = {board.title: board for board in standing(recipe).boards}
    return {name: by_title[BOARD_DATA[name].title] for name in SETS}


def row_of(board: BoardStanding, algorithm: str) -> BoardRow:
    return next(row for row in board.rows if row.head.name == algorithm)


def figures(row: BoardRow, *, first: bool = False) -> str:
    """Mean and worst client; the first of a set is bold."""
    mean = f"{100 * row.compared:.1f}"
    return f"{f'**{mean}**' if first else mean} ({100 * row.worst:.1f})"


def ranked(recipe: str) -> list[str]:
    """The algorithms by average rank, then those that are missing on some set."""
    ranking = standing(recipe).ranking
    return [*(one.name for one in ranking.algorithms), *ranking.left_out]


def user_table() -> str:
    """All algorithms, with their distance to the first of each set."""
    heads = ["algorithm", *(cell for name in SETS for cell in (f"`{name}` % (worst client)", "to the first"))]
    return plain_table(heads, [[name, *_user_cells(name)] for name in ranked(USER.name)])


def _user_cells(algorithm: str) -> list[str]:
    cells = []
    for board in boards(USER.name).values():
        row = next((one for one in board.rows if one.head.name == algorithm), None)
        first = row is not None and row.place == 1
        cells += (
            ["–", "–"] if row is None else [figures(row, first=first), written_difference(row.head.position.to_best)]
        )
    return cells


def paper_table() -> str:
    """Average ranks and figures under the paper's recipe; a star: not told apart from the first."""
    body = []
    for one in standing(PAPER.name).ranking.algorithms:
        rows = [row_of(board, one.name) for board in boards(PAPER.name).values()]
        cells = [figures(row, first=row.place == 1) + ("*" if row.is_first and row.place > 1 else "") for row in rows]
        body.append([one.name, f"{one.mean:.1f}", f"{one.worst_mean:.1f}", *cells])
    return plain_table(["algorithm", "average rank", "of the worst client", *(f"`{name}`" for name in SETS)], body)


README_HEADS = (
    "", "smartwatch, 10 people", "UCI HAR, 30 people", "UCI HAR, 20 clients", "chest X-rays, 20 clients",
    "OrganAMNIST, 20 clients",
)  # fmt: skip


def readme_table() -> str:
    """The algorithms that most readers know; the best of each column is bold."""
    by_kind = {kind: [row_of(board, spelled(kind)) for board in boards(USER.name).values()] for kind in IN_README}
    best = [max(row.compared for row in column) for column in zip(*by_kind.values(), strict=True)]
    body = []
    for kind, rows in by_kind.items():
        name = {"fedap-plus": f"**{PLUS}**", "base": "Base: everyone alone"}.get(kind, spelled(kind))
        body.append([name, *(figures(row, first=row.compared == top) for row, top in zip(rows, best, strict=True))])
    return plain_table(README_HEADS, body)


def expectations(recipe: str) -> str:
    """What is expected of FedAP+, set by set."""
    found = boards(recipe)
    gains = [row_of(board, PLUS).compared - row_of(board, FEDAP).compared for board in found.values()]
    body = [
        ["first, or not told apart from the first", *map(_place, found.values())],
        [f"a point more than {FEDAP} on average: {100 * fmean(gains):+.1f}", *(f"{100 * gain:+.1f}" for gain in gains)],
        ["best or second-best worst client", *map(_worst_place, found.values())],
        ["fewest rounds", *(_reached(board, lambda row: row.rounds_to, str) for board in found.values())],
        [
            "fewest bytes of those that exchange weights",
            *(_reached(board, _bytes_to, size) for board in found.values()),
        ],
        ["worse off than alone", *(_worse_off(row_of(board, PLUS)) for board in found.values())],
    ]
    heads = ["", *(f"`{name}`, to {percent(board.target)}" for name, board in found.items())]
    return plain_table(heads, body)


def _place(board: BoardStanding) -> str:
    row = row_of(board, PLUS)
    if row.place > 1:
        return f"{ordinal(row.place - 1)}, {written_difference(row.head.position.to_best)}"
    second = board.rows[1].head.name
    gap = difference(board.study.summaries[PLUS], board.study.summaries[second])
    return f"first, {written_difference(gap)} to {second}"


def _worst_place(board: BoardStanding) -> str:
    ordered = sorted(board.rows, key=lambda row: -row.worst)
    at = next(place for place, row in enumerate(ordered) if row.head.name == PLUS)
    other = ordered[1 if at == 0 else 0]
    gap = points(abs(ordered[at].worst - other.worst))
    name = "best" if at == 0 else "second-best" if at == 1 else ordinal(at)
    return f"{name}, {gap} {'ahead of' if at == 0 else 'behind'} {other.head.name}"


def _bytes_to(row: BoardRow) -> float | None:
    """Bytes until the target; an algorithm that sends no weights (Base) does not count."""
    return row.bytes_to or None


def _reached(board: BoardStanding, of: Callable[[BoardRow], Number | None], written: Callable[[Number], str]) -> str:
    """The value of FedAP+ with that of the next best algorithm that exchanges weights."""
    known = {row.head.name: of(row) for row in board.rows if row.head.kind != "base"}
    own = known.pop(PLUS)
    others = {name: value for name, value in known.items() if value is not None}
    if own is None or not others:
        return "not reached" if own is None else written(own)
    best = min(others, key=lambda name: others[name])
    return f"{written(own)} ({best} {written(others[best])})"


def _worse_off(row: BoardRow) -> str:
    share = row.head.position.worse_off
    return "–" if share is None else f"{100 * share:.0f} %"


TABLES: Mapping[str, Callable[[], str]] = {
    "user's recipe": user_table,
    "paper's recipe": paper_table,
    "first screen": readme_table,
    "expectations": lambda: expectations(USER.name),
    "expectations under the paper's recipe": lambda: expectations(PAPER.name),
}
PAGES: Mapping[Path, Sequence[str]] = {
    ROOT / "README.md": ("first screen",),
    ROOT / "docs/leaderboard.md": (
        "user's recipe", "paper's recipe", "expectations", "expectations under the paper's recipe"
    ),
}  # fmt: skip


def with_tables(page: str, names: Sequence[str]) -> str:
    """The page with its tables as the published runs have them; raises ValueError if the place of one is missing."""
    for name in names:
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if begin not in page or end not in page:
            raise ValueError(f"no place for the table {name!r}: {begin}{end}")
        before, _, rest = page.partition(begin)
        page = before + begin + TABLES[name]() + end + rest.partition(end)[2]
    return page


if __name__ == "__main__":
    for path, names in PAGES.items():
        path.write_text(with_tables(path.read_text(encoding="utf-8"), names), encoding="utf-8")
