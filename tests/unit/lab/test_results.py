"""Claims about what a run's records come to, and about differences that are told apart from chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedap_core.choosing import ALONE, FEDERATED, Candidate, HitCount
from fedap_core.errors import InvalidInput
from scripts.report.tables import markdown_table
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.results import SETTLED, Summary, difference, headline, positions, summarise, with_choice, worse_off


def record(number: int, correct: list[int | None], *, matrices: bool = False) -> RoundRecord:
    """Of a hundred samples each; matrices: half of the samples are of either class, all mistakes are in the second."""
    scores = tuple(
        None
        if right is None
        else ClientScore(
            correct=right, samples=100, confusion=((50, 0), (100 - right, right - 50)) if matrices else None
        )
        for right in correct
    )
    return RoundRecord(number=number, splits={"test": scores})


def summary(algorithm: str, accuracies: list[float], *, seed: int = 0, rounds: int = 100) -> Summary:
    return Summary(
        algorithm=algorithm,
        seed=seed,
        rounds=rounds,
        last=float(np.nanmean(accuracies)),
        tail=float(np.nanmean(accuracies)),
        converged=1,
        per_client=tuple(accuracies),
        curve=((rounds - 1, float(np.nanmean(accuracies))),),
    )


def test_worst_client_and_tenth_percentile_are_those_of_the_last_round() -> None:
    """Clients at 0, 10, ..., 100 %: the tenth percentile of eleven values is the second lowest."""
    found = summarise([record(0, [50] * 11), record(1, list(range(0, 101, 10)))], algorithm="a", seed=0, rounds=2)
    assert (found.worst, found.tenth_percentile) == pytest.approx((0.0, 0.1))


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_occur() -> None:
    """Recalls 50/50 and 30/50: 0.8, as the accuracy; with 90 of the first class and none of 10 of the second 0.5."""
    found = summarise([record(0, [80], matrices=True)], algorithm="a", seed=0, rounds=1)
    assert found.qualities["balanced_accuracy"] == pytest.approx(0.8)
    majority = ClientScore(correct=90, samples=100, confusion=((90, 0, 0), (10, 0, 0), (0, 0, 0)))
    assert (majority.accuracy, majority.balanced_accuracy) == (0.9, 0.5)


def test_what_was_not_kept_is_none_and_who_was_not_measured_is_left_out() -> None:
    found = summarise([record(0, [80, None])], algorithm="a", seed=0, rounds=1)
    assert found.qualities == {}
    assert (found.last, found.worst) == (0.8, 0.8)
    assert np.isnan(found.per_client[1])


def test_models_as_delivered_have_a_figure_of_their_own_where_others_are_handed_over() -> None:
    plain = record(0, [80, 60])
    both = replace(plain, delivered=record(0, [50, 40]).splits)
    found = [summarise([one], algorithm="a", seed=0, rounds=1) for one in (plain, both)]
    assert [one.last for one in found] == pytest.approx([0.7, 0.7])
    assert found[0].delivered is None
    assert headline(found[1:]).delivered == pytest.approx(0.45)
    assert "last round as delivered %" in markdown_table([headline(found[1:])])


def test_run_without_evaluated_rounds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one evaluated round"):
        summarise([RoundRecord(number=0)], algorithm="a", seed=0, rounds=1)


def test_clients_are_compared_by_their_last_ten_rounds_once_a_run_has_settled() -> None:
    """Twenty rounds: 60 % in the first nineteen, 70 % in the last; the last ten have (9 * 60 + 70) / 10 = 61 %."""
    rounds = [record(number, [70 if number == SETTLED - 1 else 60]) for number in range(SETTLED)]
    settled = summarise(rounds, algorithm="a", seed=0, rounds=SETTLED)
    short = summarise(rounds[10:], algorithm="a", seed=0, rounds=SETTLED - 1)
    assert settled.compared == pytest.approx([0.61])
    assert short.compared == pytest.approx([0.6])


def test_seed_that_never_converged_leaves_no_mean_round() -> None:
    one, other = summary("a", [0.5]), summary("a", [0.7], seed=1)
    assert headline([one, other]).converged == 1
    assert headline([one, replace(other, converged=None)]).converged is None


def test_steady_gain_is_better_and_its_mirror_worse() -> None:
    """Every client gains between 1 and 5 points, however hard it is: clients differ by 50 points, gains by 4."""
    alone = summary("base", [0.3, 0.4, 0.5, 0.6, 0.8])
    ours = summary("fedap", [0.31, 0.42, 0.53, 0.64, 0.85])
    found, mirror = difference([ours], [alone]), difference([alone], [ours])
    assert found is not None
    assert mirror is not None
    assert (found.verdict, mirror.verdict) == ("better", "worse")
    assert found.mean == pytest.approx(0.03)
    assert 0.01 <= found.low < 0.03 < found.high <= 0.05
    assert (mirror.low, mirror.high) == pytest.approx((-found.high, -found.low), abs=2e-3)


def test_gains_and_losses_that_cancel_are_not_significant() -> None:
    found = difference([summary("a", [0.4, 0.6, 0.5, 0.7])], [summary("b", [0.6, 0.4, 0.7, 0.5])])
    assert found is not None
    assert found.verdict == "not told apart"
    assert found.low < 0.0 < found.high


def test_interval_of_a_difference_covers_the_truth_as_often_as_it_says() -> None:
    """Gains drawn around 2 points, 60 pairs, 200 times: a 95 % interval holds the truth 180 times or more."""
    drawn = np.random.default_rng(1).normal(0.02, 0.05, size=(200, 60))
    held = 0
    for gains in drawn:
        found = difference([summary("a", list(0.5 + gains))], [summary("b", [0.5] * 60)])
        assert found is not None
        held += found.low <= 0.02 <= found.high
    assert 180 <= held <= 199


def test_same_runs_give_the_same_interval() -> None:
    runs = [summary("a", [0.4, 0.6, 0.55])], [summary("b", [0.5, 0.5, 0.5])]
    assert difference(*runs) == difference(*runs)


def test_only_seeds_and_clients_that_both_have_are_paired() -> None:
    """Seed 0 in common, and of its clients the first two; seed 1 is only ours."""
    ours = [summary("a", [0.6, 0.6, 0.9]), summary("a", [0.9, 0.9, 0.9], seed=1)]
    found = difference(ours, [summary("b", [0.5, 0.5, np.nan])])
    assert found is not None
    assert (found.pairs, found.mean) == pytest.approx((2, 0.1))
    assert difference(ours[1:], [summary("b", [0.5])]) is None


def test_share_of_clients_worse_off_than_alone() -> None:
    """One of four loses; who stays as it was is not worse off."""
    ours, alone = summary("fedap", [0.5, 0.6, 0.7, 0.8]), summary("base", [0.5, 0.5, 0.5, 0.9])
    assert worse_off([ours], [alone]) == 0.25
    assert worse_off([ours], []) is None


def test_every_algorithm_stands_beside_the_best_and_beside_alone() -> None:
    runs = [summary("base", [0.5, 0.5]), summary("fedavg", [0.4, 0.7]), summary("fedap", [0.6, 0.7])]
    base, fedavg, fedap = positions(runs)
    assert fedap.to_best is None
    assert base.to_alone is None
    assert base.to_best is not None
    assert base.to_best.mean == pytest.approx(-0.15)
    assert (fedavg.worse_off, fedap.worse_off) == (0.5, 0.0)


def candidate(name: str, validation: int | None, test: int) -> Candidate:
    held = None if validation is None else HitCount(correct=validation, samples=10)
    return Candidate(name=name, validation=held, test=HitCount(correct=test, samples=100))


def test_choice_counts_who_cannot_choose_with_the_federated_model() -> None:
    """The first keeps its own model, 90 instead of 70, the second the federated one with 80, and the third, without
    validation samples, the federated one with 40, though its own has 95."""
    ours = replace(
        summary("fedap", [0.7, 0.8, 0.4]),
        candidates=(candidate(FEDERATED, 5, 70), candidate(FEDERATED, 9, 80), candidate(FEDERATED, None, 40)),
    )
    alone = replace(
        summary("base", [0.9, 0.6, 0.95]),
        candidates=(candidate(ALONE, 9, 90), candidate(ALONE, 5, 60), candidate(ALONE, None, 95)),
    )
    assert with_choice([ours], [alone]) == pytest.approx((0.9 + 0.8 + 0.4) / 3)
    nobody = [replace(run, candidates=run.candidates[2:]) for run in (ours, alone)]
    assert with_choice(nobody[:1], nobody[1:]) is None
