"""Claims about the comparison table: the numbers in its cells, its columns, and who gets a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from rich.console import Console

from scripts.report.tables import (
    beside_paper,
    csv_table,
    markdown_differences,
    markdown_qualities,
    markdown_table,
    rows,
    terminal_table,
)
from scripts.run.results import Summary


def summary(
    algorithm: str,
    seed: int = 0,
    *,
    last: float,
    converged: int | None = 7,
    selected: float | None = None,
    qualities: Mapping[str, float] | None = None,
) -> Summary:
    return Summary(
        algorithm=algorithm,
        seed=seed,
        rounds=100,
        last=last,
        tail=last - 0.01,
        converged=converged,
        per_client=(last - 0.1, last + 0.1),
        curve=((99, last),),
        selected=selected,
        qualities=qualities or {},
    )


def test_row_is_the_mean_over_seeds_with_the_sample_deviation() -> None:
    """80 and 84 %: mean 82, deviation sqrt((4 + 4) / 1) = 2.83; tails 79, 83; worst clients 70, 74; a tenth of the way
    from the worst to the best client 72, 76; rounds 6, 9."""
    (row,) = rows([summary("fedap", 0, last=0.80, converged=6), summary("fedap", 1, last=0.84, converged=9)])
    assert markdown_table([row]).splitlines()[2] == "| fedap | 82.00 ± 2.83 | 81.00 | 72.00 | 74.00 | 8 |"


def test_one_seed_has_no_deviation_and_a_run_that_never_converged_a_dash() -> None:
    (row,) = rows([summary("base", last=0.5, converged=None)])
    assert markdown_table([row]).splitlines()[2] == "| base | 50.00 | 49.00 | 40.00 | 42.00 | – |"


def test_algorithms_keep_the_order_of_their_first_appearance() -> None:
    found = rows(
        [summary(name, seed, last=0.5) for seed in (0, 1) for name in ("fedap:self_weight=0.3", "base", "fedap")]
    )
    assert [(row.algorithm, row.seeds) for row in found] == [("fedap:self_weight=0.3", 2), ("base", 2), ("fedap", 2)]


def test_differences_are_in_points_with_an_interval_and_a_verdict() -> None:
    """Runs of 100 rounds without tails are compared by their last round: both clients gain 10 points, which every
    resample has, so the interval is a point; nobody is worse off."""
    text = markdown_differences([summary("base", last=0.5), summary("fedap", last=0.6)])
    lines = text.splitlines()
    assert lines[2] == "| base | – | – | -10.0 [-10.0, -10.0] | worse |"
    assert lines[3] == "| fedap | 0 % | +10.0 [+10.0, +10.0] | – | best |"
    assert "bootstrap" in text


def test_selected_column_exists_only_where_something_was_selected() -> None:
    plain = markdown_table(rows([summary("base", last=0.5)]))
    chosen = markdown_table(rows([summary("base", last=0.5, selected=0.612)]))
    assert "best validation" not in plain
    assert "best validation round %" in chosen
    assert chosen.splitlines()[2].endswith("| 61.20 |")
    assert len({line.count("|") for line in chosen.splitlines()}) == 1


def test_best_mean_is_bold_on_the_terminal() -> None:
    table = terminal_table(rows([summary("base", last=0.5), summary("fedap", last=0.9)]), "a title")
    assert [row.style for row in table.rows] == [None, "bold"]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "a title" in text
    assert "90.00" in text


def test_qualities_are_means_over_seeds_and_a_dash_where_one_has_none() -> None:
    runs = [summary("a", seed, last=0.5, qualities={"auroc": 0.8 + 0.1 * seed, "macro_f1": 0.5}) for seed in (0, 1)]
    runs += [summary("b", 0, last=0.5, qualities={"auroc": 0.7}), summary("b", 1, last=0.5)]
    lines = markdown_qualities(rows(runs)).splitlines()
    assert lines[2] == "| a | – | 50.00 | 85.00 | – | – |"
    assert lines[3] == "| b | – | – | – | – | – |"


def test_long_names_are_whole_on_a_narrow_terminal() -> None:
    name = "fedap-plus:self_weight=0.5:finetune=1:reestimate=true"
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(rows([summary(name, last=0.5)]), "a title"))
    first = "".join(line.split("│")[1].strip() for line in console.export_text().splitlines() if line.startswith("│"))
    assert first == name


def test_csv_has_one_line_per_run_and_one_column_per_client() -> None:
    text = csv_table(
        [
            summary("base", 3, last=0.5, converged=None, qualities={"auroc": 0.875}),
            summary("fedap", 4, last=2 / 3, selected=0.25),
        ],
        ["c1", "c2"],
        "paper",
    )
    first, second = csv.DictReader(io.StringIO(text))
    assert first == {
        "algorithm": "base", "seed": "3", "protocol": "paper", "rounds": "100", "last": "50.000", "tail": "49.000",
        "converged": "", "selected": "", "worst": "40.000", "tenth_percentile": "42.000", "worse_off": "",
        "balanced_accuracy": "", "macro_f1": "", "auroc": "87.500", "sensitivity": "", "calibration_error": "",
        "c1": "40.000", "c2": "60.000",
    }  # fmt: skip
    assert (second["last"], second["selected"], second["converged"]) == ("66.667", "25.000", "7")


def test_table_beside_the_paper_has_algorithms_as_columns_and_its_numbers_below() -> None:
    """80 and 84 %: 82.00 ± 2.83, tail 81.00, worst client 72.00; FedAP 90 alone in bold; d-FedAP is not the paper's."""
    runs = [summary("base", 0, last=0.80), summary("base", 1, last=0.84)]
    runs += [summary("fedap", seed, last=0.90) for seed in (0, 1)] + [summary("d-fedap", 0, last=0.85, converged=None)]
    lines = beside_paper(rows(runs), {"base": 48.04, "fedap": 92.62}).splitlines()
    assert lines[0] == "|  | Base | FedAP | d-FedAP |"
    assert lines[2] == "| last round, mean ± deviation of 2 seeds | 82.00 ± 2.83 | **90.00 ± 0.00** | 85.00 |"
    assert lines[3] == "| mean of the last ten rounds | 81.00 | **89.00** | 84.00 |"
    assert lines[5] == "| converged in round | 7 | 7 | – |"
    assert lines[6] == "| the paper | 48.04 | **92.62** | – |"


def test_table_without_the_paper_has_no_row_for_it() -> None:
    table = beside_paper(rows([summary("base", last=0.5)]))
    assert "the paper" not in table
    assert "last round, one seed" in table
