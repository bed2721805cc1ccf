"""Claims about verdicts: each judge holds on numbers that bear the claim out, and not on numbers that do not."""

from __future__ import annotations

import pytest

from scripts.experiments.reproduce import judges

MEANS = {"base": 50.0, "fedavg": 80.0, "fedbn": 88.0, "fedap": 92.0}


def test_best_needs_the_lead_that_the_paper_states() -> None:
    """92 - 88 = 4 points: over 3.5, not over 10."""
    assert judges.best(MEANS, claim="c", lead=3.5).held
    assert not judges.best(MEANS, claim="c", lead=10.0).held
    assert "FedAP 92.00 %, best of the others FedBN 88.00 %: +4.00 points" in judges.best(MEANS, claim="c").numbers


def test_best_is_not_held_when_another_leads() -> None:
    verdict = judges.best({**MEANS, "fedper": 93.0}, claim="c")
    assert (verdict.held, verdict.word) == (False, "not held")
    assert "FedPer 93.00 %: -1.00 points" in verdict.numbers


def test_places_in_the_ranking_are_judged_by_the_means() -> None:
    assert judges.second_best(MEANS, name="fedbn", claim="c").held
    assert not judges.second_best(MEANS, name="fedavg", claim="c").held
    assert judges.worst(MEANS, name="base", claim="c").held
    assert "the lowest is Base with 50.00 %" in judges.worst(MEANS, name="fedbn", claim="c").numbers


def test_better_for_everyone_fails_on_one_client() -> None:
    assert judges.better_for_everyone([2.0, 3.0], [1.0, 1.0], claim="c").held
    verdict = judges.better_for_everyone([2.0, 3.0], [1.0, 4.5], claim="c")
    assert not verdict.held
    assert verdict.numbers == "1 of 2 clients are better off, from -1.5 to +1.0 points."


@pytest.mark.parametrize(
    ("gain", "slightly", "much"),
    [
        (-1.0, False, False),
        (0.0, False, False),
        (2.0, True, False),
        (3.0, True, False),
        (4.0, False, False),
        (5.0, False, True),
    ],
)
def test_slightly_and_much_better_never_mean_the_same_gain(gain: float, slightly: bool, much: bool) -> None:
    """At most 3 points and at least 5: two points are slightly better, four are neither."""
    ours, other = ("LBN", 80.0 + gain), ("SBN", 80.0)
    assert judges.slightly_better(ours=ours, other=other, claim="c").held is slightly
    assert judges.much_better(ours=ours, other=other, claim="c").held is much


def test_every_judge_of_a_word_says_how_it_read_the_word() -> None:
    ours, other = ("FedAP", 95.83), ("FedBN", 93.68)
    assert judges.much_better(ours=ours, other=other, claim="c", where="UCI HAR: ").numbers == (
        "UCI HAR: FedAP 95.83 %, FedBN 93.68 %: +2.15 points («much» is read as at least 5)."
    )
    assert "(«slightly» is read as at most 3)." in judges.slightly_better(ours=ours, other=other, claim="c").numbers
    uneven = judges.robust_to_uneven_data(fedavg=(80.0, 75.0), fedap=(90.0, 89.0), claim="c", where="")
    assert "«not much» is read as less than FedAvg falls" in uneven.numbers
    decline = judges.declines_less(ours=("FedAP", [9.0, 8.0]), other=("FedBN", [9.0, 2.0]), ends=("1", "8"), claim="c")
    assert "«seriously» is read as at least 5 points, «slowly» as less than FedBN" in decline.numbers


@pytest.mark.parametrize(
    ("fedavg", "fedap", "held"),
    [((80.0, 75.0), (90.0, 89.0), True), ((80.0, 75.0), (90.0, 84.0), False), ((80.0, 81.0), (90.0, 90.0), False)],
)
def test_robust_means_that_fedavg_falls_and_fedap_moves_less(
    fedavg: tuple[float, float], fedap: tuple[float, float], held: bool
) -> None:
    assert judges.robust_to_uneven_data(fedavg=fedavg, fedap=fedap, claim="c", where="").held is held


def test_a_slower_decline_is_one_from_the_first_setting_to_the_last() -> None:
    """FedBN 90 -> 60 loses 30; FedAP 92 -> 85 loses 7, 92 -> 50 loses 42. To lose 4 is no serious drop."""
    bn = ("FedBN", [90.0, 80.0, 60.0])
    slow = judges.declines_less(ours=("FedAP", [92.0, 70.0, 85.0]), other=bn, ends=("1", "8"), claim="c")
    assert slow.held
    assert "(-30.00)" in slow.numbers
    assert "(-7.00)" in slow.numbers
    assert not judges.declines_less(ours=("FedAP", [92.0, 50.0]), other=bn, ends=("1", "8"), claim="c").held
    little = ("FedBN", [90.0, 86.0])
    assert not judges.declines_less(ours=("FedAP", [92.0, 92.0]), other=little, ends=("1", "8"), claim="c").held


def test_going_down_and_leading_everywhere_look_at_every_setting() -> None:
    assert judges.goes_down([90.0, 91.0, 80.0], ["10", "20", "50"], name="FedAP", claim="c").held
    assert not judges.goes_down([90.0, 80.0, 90.0], ["10", "20", "50"], name="FedAP", claim="c").held
    mixed = {"10": MEANS, "20": {**MEANS, "fedbn": 92.5}}
    verdict = judges.leads(mixed, claim="c")
    assert not verdict.held
    assert "1 of 2 settings" in verdict.numbers
    assert judges.leads({"10": MEANS}, claim="c").held


def test_most_settings_are_more_than_half_of_them() -> None:
    half = {"10": MEANS, "20": {**MEANS, "fedbn": 92.5}}
    assert not judges.leads(half, claim="c", share=0.5).held
    assert judges.leads({**half, "50": MEANS}, claim="c", share=0.5).held


def test_variants_must_all_stand_above_the_others() -> None:
    means = {"fedavg": 80.0, "fedbn": 85.0, "fedap": 90.0, "d-fedap": 91.0, "f-fedap": 88.0}
    ours, others = ("fedap", "d-fedap", "f-fedap"), ("fedavg", "fedbn")
    assert judges.all_above(means, ours=ours, others=others, claim="c").held
    assert not judges.all_above({**means, "f-fedap": 84.0}, ours=ours, others=others, claim="c").held
    assert judges.slightly_below(means, name="f-fedap", others=ours[:2], claim="c").held
    for far_or_above in (80.0, 90.5):
        far = {**means, "f-fedap": far_or_above}
        assert not judges.slightly_below(far, name="f-fedap", others=ours[:2], claim="c").held


def test_convergence_is_judged_by_rounds_and_never_is_later_than_anything() -> None:
    assert judges.converges_by(10.0, name="FedAP", bound=10, every=1, claim="c").held
    late = judges.converges_by(45.0, name="FedAP", bound=10, every=5, claim="c")
    assert not late.held
    assert "from round 45 (evaluated every 5 rounds)" in late.numbers
    assert not judges.converges_by(None, name="FedAP", bound=10, every=1, claim="c").held

    def sooner(fedap: float | None, fedbn: float | None) -> bool:
        rounds = {"fedap": fedap, "fedbn": fedbn}
        return judges.sooner_at_a_level(rounds, ours="fedap", other="fedbn", level=80.0, claim="c").held

    assert sooner(10, 40)
    assert sooner(10, None)
    assert not sooner(40, 10)
    assert not sooner(None, None)


def test_lambda_affects_slightly_within_three_points() -> None:
    assert judges.affects_slightly({"0.1": 90.0, "0.9": 93.0}, claim="c").held
    assert not judges.affects_slightly({"0.1": 90.0, "0.9": 93.1}, claim="c").held


@pytest.mark.parametrize(
    ("fast", "slow", "every", "held"),
    [(50.0, 60.0, 5, False), (45.0, 60.0, 5, True), (10.0, 15.0, 5, False), (5.0, 15.0, 5, True), (3.0, 4.0, 1, False),
     (20.0, 20.0, 1, False)],
)  # fmt: skip
def test_speed_changes_by_a_quarter_and_by_more_than_the_grid(fast: float, slow: float, every: int, held: bool) -> None:
    """Of 60 a quarter is 15. Of 15 it is 3.75, but two steps of 5 rounds are 10. Of 4 it is 1, but two steps are 2."""
    verdict = judges.changes_speed({"0.1": slow, "0.5": fast, "0.9": slow}, every=every, claim="c")
    assert verdict.held is held


def test_speed_s_sentence_states_the_bound_and_names_who_never_arrives() -> None:
    verdict = judges.changes_speed({"0.1": 60.0, "0.5": None, "0.9": 50.0}, every=5, claim="c")
    assert verdict.numbers == (
        "95 % of the final accuracy is reached in round 60 (0.1), never (0.5), 50 (0.9): 10 rounds between fastest and "
        "slowest (a change is read as at least 15: 25 % of the slowest, and 2 × 5, the step between evaluations)."
    )
    assert not judges.changes_speed({"0.1": None, "0.9": None}, every=1, claim="c").held


def test_uneven_clients_are_measured_by_what_would_have_to_change_class() -> None:
    """Two clients with one class each: the whole is half and half, so half of each would change. Equal: nothing."""
    verdict = judges.uneven_clients([[10, 0], [0, 10]], claim="c")
    assert verdict.held
    assert "50 % of a client's samples" in verdict.numbers
    assert "1.0 of 2 classes are missing" in verdict.numbers
    assert not judges.uneven_clients([[5, 5], [5, 5]], claim="c").held


def test_one_negative_correlation_ends_the_claim() -> None:
    assert judges.correlates({"mean": [0.9, 0.8], "variance": [0.7]}, claim="c").held
    assert not judges.correlates({"mean": [0.9, -0.1], "variance": [0.7]}, claim="c").held
