"""Claims about what chance may add to a difference: intervals hold the truth as often as they say, also with few
clients, and a client whose seeds repeat each other counts once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scripts.report.tables import written_difference
from scripts.run.chance import paired
from scripts.run.results import Summary, difference, worse_off
from tests.unit.lab.test_results import summary


@pytest.mark.parametrize("count", [3, 5, 10, 20])
def test_interval_of_few_clients_holds_the_truth_as_often_as_it_says(count: int) -> None:
    """Gains drawn around 2 points, 300 times. Unwidened intervals hold it 75, 81, 89 and 95 times in a hundred."""
    drawn = np.random.default_rng(count).normal(0.02, 0.05, size=(300, count))
    found = [paired(gains) for gains in drawn]
    held = sum(one is not None and one.low <= 0.02 <= one.high for one in found)
    assert 0.91 * 300 <= held <= 0.99 * 300


def test_one_client_is_no_evidence() -> None:
    found = paired(np.array([-0.093]))
    assert found is not None
    assert (found.verdict, found.is_bounded, found.pairs) == ("not told apart", False, 1)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert written_difference(found) == "-9.3 [–]"


def of_seeds(accuracies: list[list[float]], *, same: bool) -> list[Summary]:
    return [replace(summary("a", row, seed=seed), same_clients=same) for seed, row in enumerate(accuracies)]


def test_seeds_of_the_same_clients_are_no_further_evidence() -> None:
    """Three seeds repeat the gaps of eight people. As 24 clients they are told apart from nothing, as eight they are
    not; a single seed of the eight gives the same interval as three."""
    gaps = [0.09, -0.05, 0.08, -0.02, 0.07, 0.02, -0.03, 0.06]
    rows, zero = [[0.5 + gap for gap in gaps]] * 3, [[0.5] * 8] * 3
    as_others = difference(of_seeds(rows, same=False), of_seeds(zero, same=False))
    as_same = difference(of_seeds(rows, same=True), of_seeds(zero, same=True))
    once = difference(of_seeds(rows[:1], same=True), of_seeds(zero[:1], same=True))
    assert as_others is not None
    assert as_same is not None
    assert once is not None
    assert (as_others.verdict, as_same.verdict) == ("better", "not told apart")
    assert (as_same.mean, as_same.low, as_same.high) == pytest.approx((once.mean, once.low, once.high))
    assert (as_same.pairs, once.pairs) == (24, 8)


def test_mean_over_seeds_leaves_out_what_was_not_measured() -> None:
    """The second client was measured in one seed only, the third in none: gaps of 0.2 and 0.1."""
    nan = math.nan
    ours = of_seeds([[0.6, 0.6, nan], [0.8, nan, nan]], same=True)
    found = difference(ours, of_seeds([[0.5, 0.5, 0.5]] * 2, same=True))
    assert found is not None
    assert (found.mean, found.pairs) == pytest.approx((0.15, 3))


def test_rounding_makes_nobody_worse_off_and_nothing_better() -> None:
    """0.1 + 0.2 and 0.3 are the same accuracy, averaged in another order."""
    less, more = summary("a", [0.3] * 6), summary("b", [0.1 + 0.2] * 6)
    assert worse_off([less], [more]) == 0.0
    found = difference([more], [less])
    assert found is not None
    assert found.verdict == "not told apart"
