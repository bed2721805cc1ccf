"""Claims about absolute similarity: what its units are, and that a stranger is left to itself without breaking W."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.distances import diagonal_distances, total_distance
from fedap_core.errors import InvalidInput
from fedap_core.mixing import check_mixing, mixing_from_distances
from fedap_core.similarity import isolate, nearest_similarity, similarities
from fedap_core.strategies import Evidence, make_strategy


def member(mean: float, *, samples: int = 100, spread: float = 1.0) -> BnStats:
    """One layer of four channels, each of variance spread squared / 4: its spread is `spread`."""
    layer = LayerMoments(name="bn", count=samples, mean=np.full(4, mean), variance=np.full(4, spread**2 / 4))
    return BnStats(samples=samples, layers=(layer,))


def found(*members: BnStats) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return similarities(total_distance(diagonal_distances(members)), members)


def test_equal_statistics_are_1_and_a_spread_apart_is_one_half() -> None:
    """Means 0.5 apart in four channels are sqrt(4 * 0.25) = 1 apart, the spread is 1: 1 / (1 + 1)."""
    assert found(member(0.0), member(0.0), member(0.5)).tolist() == [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]


def test_number_of_samples_and_unit_of_measurement_do_not_matter() -> None:
    few, many = found(member(0.0), member(0.1)), found(member(0.0, samples=9999), member(0.1, samples=9999))
    scaled = found(member(0.0, spread=7.0), member(0.7, spread=7.0))
    assert few == pytest.approx(many)
    assert few == pytest.approx(scaled)


def test_nearest_is_the_one_most_alike_and_a_lone_member_lacks_nobody() -> None:
    assert nearest_similarity(found(member(0.0), member(0.0), member(0.5))).tolist() == [1.0, 1.0, 0.5]
    assert nearest_similarity(found(member(0.0))).tolist() == [1.0]


def test_outlier_gets_and_gives_nothing_and_the_others_keep_their_own_weight() -> None:
    distances = np.array([[0.0, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 3.0], [2.0, 1.0, 0.0, 1.0], [1.0, 3.0, 1.0, 0.0]])
    weights = mixing_from_distances(distances, self_weight=0.4)
    apart = isolate(weights, np.array([False, False, False, True]))
    check_mixing(apart)
    assert apart[3].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert apart[:3, 3].tolist() == [0.0, 0.0, 0.0]
    assert apart.diagonal()[:3] == pytest.approx([0.4] * 3)
    assert apart[0, 1] / apart[0, 2] == pytest.approx(weights[0, 1] / weights[0, 2])


def test_without_outliers_weights_are_the_same_bits() -> None:
    weights = mixing_from_distances(np.array([[0.0, 1.0], [1.0, 0.0]]), self_weight=0.3)
    assert isolate(weights, np.zeros(2, dtype=np.bool_)).tobytes() == weights.tobytes()


def test_two_outliers_both_stay_isolated() -> None:
    weights = np.full((2, 2), 0.5)
    assert isolate(weights, np.ones(2, dtype=np.bool_)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_one_mark_per_member_is_needed() -> None:
    with pytest.raises(InvalidInput, match="strangers"):
        isolate(np.eye(2), np.zeros(3, dtype=np.bool_))


def test_fedap_isolates_an_outlier_only_if_configured() -> None:
    """Means 0, 0.1 and 5: similarities 1 / (1 + 0.2) = 0.83 and 1 / (1 + 9.8) = 0.09."""
    stats = (member(0.0), member(0.1), member(5.0))
    evidence = Evidence(counts=(100, 100, 100), stats=stats)
    paper = make_strategy("fedap").mixing(evidence)
    product = make_strategy("fedap", {"min_similarity": 0.7}).mixing(evidence)
    assert paper.weights[2, 2] == 0.5
    assert product.weights.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    for one in (paper, product):
        assert one.similarity == pytest.approx([1 / 1.2, 1 / 1.2, 1 / 10.8])


@pytest.mark.parametrize("wrong", [-0.1, 1.1])
def test_minimum_is_a_share(wrong: float) -> None:
    with pytest.raises(InvalidInput, match="min_similarity"):
        make_strategy("fedap", {"min_similarity": wrong})
