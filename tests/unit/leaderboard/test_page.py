"""Claims about the leaderboard's page: order, verdicts, rounds and bytes to a target, nothing loaded from outside."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from scripts.report.leaderboard.standings import BoardStanding, stand, stand_all
from scripts.report.leaderboard.writing import as_csv, as_html, as_markdown
from scripts.report.page.lab_folder import read_lab_run
from scripts.report.page.study import make_study
from tests.support.report_runs import write_run

WIRE = (1000, 3000)


def board(
    root: Path, title: str = "Wards", *, target: float = 0.0, missing: int = 0, left_out: int = 0
) -> BoardStanding:
    """Three clients, three rounds: FedAP ends at 90 %, FedAvg at 80, Base at 60."""
    folders = [
        write_run(root, "base", [[50, 50, 50], [55, 55, 55], [60, 60, 60]]),
        write_run(root, "fedavg", [[50, 50, 50], [70, 70, 70], [80, 80, 80]], wire=WIRE),
        write_run(root, "fedap", [[60, 60, 60], [85, 87, 86], [88, 92, 90]], wire=WIRE),
    ]
    study = make_study([read_lab_run(folder) for folder in folders])
    return stand(title, study, target=target, missing=missing, left_out=left_out)


def test_best_is_first_and_the_others_are_compared_with_it(tmp_path: Path) -> None:
    found = board(tmp_path)
    assert [(row.place, row.head.name, row.verdict) for row in found.rows] == [
        (1, "FedAP", "first"),
        (2, "FedAvg", "worse"),
        (3, "Base", "worse"),
    ]
    assert found.rows[0].worst == pytest.approx(0.88)


def test_rounds_and_bytes_are_counted_to_the_target(tmp_path: Path) -> None:
    """95 % of 90 % is 85.5 %: FedAP has 86 % after two rounds of 4000 bytes, FedAvg never. 69 %: two rounds both."""
    found = board(tmp_path / "default")
    assert [(row.rounds_to, row.bytes_to) for row in found.rows] == [(2, 8000.0), (None, None), (None, None)]
    named = board(tmp_path / "named", target=0.69)
    assert [(row.rounds_to, row.bytes_to) for row in named.rows] == [(2, 8000.0), (2, 8000.0), (None, None)]


def test_bytes_to_the_target_are_unknown_if_those_of_one_seed_are(tmp_path: Path) -> None:
    known = write_run(tmp_path, "fedap", [[80, 80, 80]], wire=WIRE)
    unknown = write_run(tmp_path, "fedap", [[80, 80, 80]], seed=1)
    (row,) = stand("Wards", make_study([read_lab_run(folder) for folder in (known, unknown)])).rows
    assert (row.rounds_to, row.bytes_to) == (1, None)


def test_page_has_a_table_for_each_set_and_ranks_over_them(tmp_path: Path) -> None:
    boards = [board(tmp_path / "one", "North <1>"), board(tmp_path / "two", "South", missing=2, left_out=3)]
    standing = stand_all("the user's recipe: momentum", boards)
    assert standing.firsts == {"FedAP": 2, "FedAvg": 0, "Base": 0}
    page = as_html([standing], ["3 algorithms"])
    assert "North &lt;1&gt;" in page
    assert "2 runs not finished yet. 3 of seeds that not every algorithm has are left out.</p>" in page
    assert page.count('<svg class="chart dots"') == 1
    assert page.count('class="chart curves"') == 2 * 4  # each for wide and for narrow screens
    assert "http" not in page.replace("http://www.w3.org", "")
    for quality in ("Balanced accuracy, %", "Macro-F1, %", "AUROC, %", "Sensitivity at 95 % specificity, %"):
        assert page.count(f'<th scope="col">{quality}</th>') == 2
    text = as_markdown([standing])
    assert text.count("sensitivity at 95 % specificity, %") == 2
    assert "| FedAP | 1.0 | 1.0 | 90.0 | 2 of 2 |" in text
    lines = list(csv.DictReader(io.StringIO(as_csv([standing]))))
    assert [(line["data"], line["algorithm"], line["bytes"]) for line in lines[:3]] == [
        ("North <1>", "FedAP", "12000"),
        ("North <1>", "FedAvg", "12000"),
        ("North <1>", "Base", ""),
    ]
