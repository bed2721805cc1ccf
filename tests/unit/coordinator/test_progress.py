"""Claims about a run's progress: scores belong to the model they judge, the time left follows from recent rounds."""

from __future__ import annotations

import pytest

from coordinator.decisions import facts
from coordinator.decisions.progress import RoundScore, RunProgress
from protocol.messages import Score


def score(correct: int, model: str = "delivered") -> Score:
    return Score(model=model, split="test", samples=10, correct=correct, loss=0.5, macro_f1=0.5)


def update(member: str, round_no: int, *scores: Score) -> facts.UpdateAccepted:
    return facts.UpdateAccepted(
        member=member, round_no=round_no, steps=3, train_loss=0.1, scores=scores, measured=False, distance=None
    )


def closed(round_no: int) -> facts.RoundClosed:
    return facts.RoundClosed(round_no=round_no, reason="all", reported=("a", "b"), missing=())


def opened(round_no: int) -> facts.RoundOpened:
    return facts.RoundOpened(round_no=round_no, members=("a", "b"))


def told(progress: RunProgress, *facts_at: tuple[float, facts.Fact]) -> RunProgress:
    for time_s, fact in facts_at:
        progress.add(fact, time_s)
    return progress


def test_a_score_belongs_to_the_round_whose_model_was_delivered() -> None:
    """A report of round 1 (the second) judges what round 0 (the first) made."""
    progress = told(RunProgress(rounds=3, continuous=False), (1.0, update("a", 1, score(7))))
    assert progress.latest("a") == RoundScore(round=1, accuracy=0.7, samples=10)


def test_the_summary_is_over_the_latest_scores_of_those_asked_for() -> None:
    """a: 0.7 then 0.9, b: 0.5, c is not asked for: mean (0.9 + 0.5) / 2 = 0.7."""
    progress = told(
        RunProgress(rounds=3, continuous=False),
        (1.0, update("a", 1, score(7))),
        (1.0, update("b", 1, score(5))),
        (1.0, update("c", 1, score(0))),
        (2.0, update("a", 2, score(9))),
    )
    summary = progress.summary(["a", "b", "nobody"])
    assert summary is not None
    assert (summary.mean, summary.lowest, summary.lowest_member, summary.members) == (0.7, 0.5, "b", 2)


def test_the_time_left_follows_from_the_median_of_recent_rounds() -> None:
    """Rounds end at 10, 20, 50 (opened at 0): 10, 10 and 30 s, median 10. Two of five rounds are left: 20 s, of which
    4 have passed at 54."""
    progress = told(
        RunProgress(rounds=5, continuous=False),
        *((0.0, opened(0)), (10.0, closed(0)), (10.0, opened(1)), (20.0, closed(1))),
        *((20.0, opened(2)), (50.0, closed(2)), (50.0, opened(3))),
    )
    assert progress.seconds_left(["a", "b"], 54.0) == pytest.approx(16.0)
    assert progress.last_round_s == 30.0


def test_nothing_is_foreseen_before_a_round_has_closed_and_nothing_is_left_at_the_end() -> None:
    progress = told(RunProgress(rounds=5, continuous=False), (0.0, opened(0)))
    assert progress.seconds_left(["a"], 3.0) is None
    progress.add(facts.Finished(reason="rounds", sentence="done"), 4.0)
    assert progress.seconds_left(["a"], 5.0) == 0.0


def test_without_barriers_the_slowest_member_decides() -> None:
    """Of 4 rounds a has trained 3, one a second; b 2, five seconds apart: 2 x 5 s are left for it at its last one."""
    progress = told(
        RunProgress(rounds=4, continuous=True),
        *((1.0, update("a", 0)), (2.0, update("a", 1)), (3.0, update("a", 2))),
        *((1.0, update("b", 0)), (6.0, update("b", 1))),
    )
    assert progress.seconds_left(["a", "b"], 6.0) == pytest.approx(10.0)


def test_what_is_told_again_replaces_what_was_told() -> None:
    """A folder that was older than the federation caught up: round 1 is scored once more, and later ones are gone."""
    progress = told(
        RunProgress(rounds=4, continuous=False),
        *((1.0, update("a", 1, score(5))), (2.0, update("a", 2, score(6))), (3.0, update("a", 1, score(8)))),
    )
    assert [(one.round, one.accuracy) for one in progress.scores["a"]] == [(1, 0.8)]
