"""Claims about what a leaderboard runs: sets, recipes, seeds and algorithms, and how they are restricted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES
from scripts.experiments.leaderboard.boards import BOARD_DATA, Restriction, make_boards
from scripts.experiments.leaderboard.running import MEASURED_S, in_words, seconds_of, study_of_common_seeds
from scripts.report.page.lab_folder import read_lab_run
from tests.support.report_runs import write_run


def test_user_recipe_has_every_algorithm_and_the_paper_recipe_its_eight_and_fedap_plus() -> None:
    paper, user = make_boards(Restriction(data=("organamnist",)))
    assert [run.algorithm for run in user.runs] == 3 * list(STRATEGIES)
    assert len(paper.runs) == 3 * 9
    assert (paper.runs[0].sgd.momentum, user.runs[0].sgd.momentum) == (0.0, 0.9)
    assert (paper.runs[0].sgd.lr_schedule, user.runs[0].sgd.lr_schedule) == ("constant", "cosine")
    assert {run.sgd.batches for run in (*paper.runs, *user.runs)} == {"even"}


def test_sets_without_files_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    assert {board.data.name for board in make_boards(Restriction())} == {"watch"}


def test_restriction_decides_what_it_names() -> None:
    asked = Restriction(
        data=("har-people",), recipes=("user",), algorithms="base,fedap:self_weight=0.3", seeds=(4,), rounds=7
    )
    (board,) = make_boards(asked)
    assert [run.label for run in board.runs] == ["base", "fedap:self_weight=0.3"]
    assert {(run.seed, run.rounds, run.cohort.partition) for run in board.runs} == {(4, 7, "site")}


@pytest.mark.parametrize("asked", [Restriction(data=("nothing",)), Restriction(recipes=("nothing",))])
def test_unknown_names_are_refused(asked: Restriction) -> None:
    with pytest.raises(InvalidInput, match="nothing"):
        make_boards(asked)


def test_time_left_is_that_of_the_missing_runs(tmp_path: Path) -> None:
    """Ditto goes through the data twice a round, Base once: three passes in each of ten rounds."""
    boards = make_boards(Restriction(quick=True, algorithms="base,ditto"))
    (left,) = seconds_of(boards, tmp_path).values()
    assert left == pytest.approx(10 * 3 * MEASURED_S["watch"])


def test_only_seeds_that_every_algorithm_has_are_compared(tmp_path: Path) -> None:
    """A sweep that stopped in its second seed: FedAvg has seeds 0 and 1, Ditto seed 0 alone."""
    every = [
        read_lab_run(write_run(tmp_path, algorithm, [[80, 80, 80]], seed=seed))
        for algorithm in ("fedavg", "ditto")
        for seed in (0, 1)
    ]
    finished = [one for one in every if (one.algorithm, one.seed) != ("ditto", 1)]
    assert [one.seed for one in study_of_common_seeds(finished).runs] == [0, 0]
    assert set(study_of_common_seeds(every).runs) == set(every)
    apart = [one for one in every if (one.algorithm == "ditto") == (one.seed == 1)]
    assert set(study_of_common_seeds(apart).runs) == set(apart)  # nothing in common: better than an empty table


def test_every_set_has_a_measured_duration() -> None:
    assert MEASURED_S.keys() == BOARD_DATA.keys()
    assert [in_words(one) for one in (0.2, 60, 600, 9000)] == ["1 s", "60 s", "10 min", "2.5 h"]
