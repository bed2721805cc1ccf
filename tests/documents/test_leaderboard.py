"""The leaderboard's figures in README, docs and csv are those of the published runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.experiments.leaderboard.boards import PAPER, USER
from scripts.report.leaderboard.writing import as_csv
from tests.documents.leaderboard import PAGES, RUNS, standing, with_tables


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_of_a_page_are_those_of_the_published_runs(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert with_tables(page, PAGES[path]) == page, "python -m tests.documents.leaderboard"


def test_csv_is_that_of_the_published_runs() -> None:
    made = as_csv([standing(PAPER.name), standing(USER.name)])
    assert (RUNS / "leaderboard.csv").read_text(encoding="utf-8") == made, "fedap-lab leaderboard --no-run"


def test_page_without_a_place_for_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table 'first screen'"):
        with_tables("a page", ["first screen"])
