"""What a participant is told to do, and how sure that is said to be."""

from __future__ import annotations

import pytest

from scripts.report.page.advice import Verdict, advise, judge, overlap
from scripts.report.page.runs import ClientScore


def of(correct: int, samples: int = 100) -> ClientScore:
    return ClientScore(correct=correct, samples=samples)


def test_wilson_intervals_decide_whether_two_scores_overlap() -> None:
    """At n = 100, z = 1.96: 60 gives 0.502..0.691, 80 gives 0.711..0.867, 75 gives 0.657..0.825."""
    assert not overlap(of(60), of(80))
    assert not overlap(of(80), of(60))
    assert overlap(of(60), of(75))


@pytest.mark.parametrize(
    ("alone", "together", "tail_gain", "verdict"),
    [
        (60, 80, None, Verdict.GAIN),
        (60, 75, None, Verdict.MAYBE_GAIN),
        (70, 70, None, Verdict.SAME),
        (75, 60, None, Verdict.MAYBE_LOSS),
        (80, 60, None, Verdict.LOSS),
        (60, 80, 0.01, Verdict.GAIN),
        (60, 80, -0.01, Verdict.MAYBE_GAIN),
        (80, 60, -0.01, Verdict.LOSS),
        (80, 60, 0.0, Verdict.MAYBE_LOSS),
    ],
)
def test_difference_counts_only_beyond_the_intervals_and_confirmed_by_the_last_rounds(
    alone: int, together: int, tail_gain: float | None, verdict: Verdict
) -> None:
    assert judge(of(alone), of(together), tail_gain=tail_gain) is verdict


def test_sure_gain_is_told_with_its_points() -> None:
    told = advise(alone=of(700, 1000), average=None, personal=of(761, 1000), name="FedAP")
    assert told.headline == "Federation gains 6.1 points here."
    assert told.detail == "Use the model of FedAP. The 95 % intervals do not overlap: this is more than chance."


def test_small_gain_is_told_as_perhaps_chance() -> None:
    told = advise(alone=of(70), average=None, personal=of(71), name="FedAP")
    assert (told.verdict, told.headline) == (Verdict.MAYBE_GAIN, "Federation gains 1.0 point here, perhaps.")
    assert "may be chance" in told.detail


@pytest.mark.parametrize(
    ("personal", "also"), [(70, "equally often"), (69, "may be chance"), (40, "loses 30.0 points")]
)
def test_without_a_gain_the_local_model_is_kept(personal: int, also: str) -> None:
    told = advise(alone=of(70), average=None, personal=of(personal), name="FedAP")
    assert told.headline == "No gain: keep the local model."
    assert also in told.detail


def test_gain_of_one_swinging_round_is_told_with_the_last_ten() -> None:
    told = advise(alone=of(25), average=None, personal=of(80), name="FedAP", tail_gain=0.058)
    assert told.headline == "Federation gains 55.0 points in the last round, 5.8 points over the last ten."


def test_unconfirmed_difference_says_which_side_the_last_rounds_take() -> None:
    told = advise(alone=of(60), average=None, personal=of(80), name="FedAP", tail_gain=-0.03)
    assert told.verdict is Verdict.MAYBE_GAIN
    assert "other rounds do not confirm" in told.detail
    assert "over the last ten rounds, FedAP is 3.0 points behind the local model" in told.detail


def test_one_model_for_all_is_mentioned_where_it_surely_costs_or_surely_helps() -> None:
    costs = advise(alone=of(90), average=of(50), personal=of(92), name="FedAP")
    helps = advise(alone=of(50), average=of(95), personal=of(70), name="FedAP")
    unsure = advise(alone=of(90), average=of(88), personal=of(92), name="FedAP")
    assert "FedAvg, one model for all, would cost 40.0 points here." in costs.detail
    assert "FedAvg, one model for all, is 25.0 points better than FedAP here." in helps.detail
    assert "FedAvg" not in unsure.detail


def test_what_did_not_run_is_not_guessed() -> None:
    assert advise(alone=None, average=None, personal=of(9), name="FedAP").headline == "The gain cannot be told."
    nothing = advise(alone=of(9), average=None, personal=None, name="")
    assert nothing.headline == "No federated model was measured here."
