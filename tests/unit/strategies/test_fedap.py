"""FedAP and its variants: W from distances, its options and schedules, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.strategies import Evidence, Measure, Phase, make_strategy
from fedap_core.strategies.fedap import FEDBN

FAMILY = ("fedap", "d-fedap", "f-fedap", "fedap-sbn")


def moments(name: str, mean: float, deviation: float, other_mean: float = 0.0) -> LayerMoments:
    """Two channels: one with the given mean and deviation, one with variance 1."""
    means, variances = np.array([mean, other_mean]), np.array([deviation**2, 1.0])
    return LayerMoments(name=name, count=9, mean=means, variance=variances, covariance=np.diag(variances))


def member(first: tuple[float, float], second: tuple[float, float]) -> BnStats:
    return BnStats(samples=9, layers=(moments("a", *first), moments("b", *second)))


EVIDENCE = Evidence(
    counts=(10, 30, 60),
    stats=(member((0.0, 1.0), (0.0, 1.0)), member((3.0, 5.0), (0.0, 1.0)), member((0.0, 1.0), (12.0, 10.0))),
)
"""Layer a: member 1 is (3, 5 - 1 = 4) away from the others: 5. Layer b: member 2 is (12, 10 - 1 = 9) away: 15.

Sums over the layers: d01 = 5, d02 = 15, d12 = 20. Weights of others in proportion to 1 / d:
row 0: 1/5 : 1/15 = 3 : 1; row 1: 1/5 : 1/20 = 4 : 1; row 2: 1/15 : 1/20 = 4 : 3.
"""

SHARES = np.array([[0.0, 3 / 4, 1 / 4], [4 / 5, 0.0, 1 / 5], [4 / 7, 3 / 7, 0.0]])


def weights_of(name: str, **options: object) -> FloatArray:
    return make_strategy(name, options).mixing(EVIDENCE).weights


@pytest.mark.parametrize("name", FAMILY)
def test_the_closer_the_heavier_with_half_for_oneself(name: str) -> None:
    np.testing.assert_allclose(weights_of(name), 0.5 * np.eye(3) + 0.5 * SHARES, atol=1e-15)


@pytest.mark.parametrize("self_weight", [0.0, 0.3, 1.0])
def test_the_self_weight_is_the_diagonal(self_weight: float) -> None:
    expected = self_weight * np.eye(3) + (1.0 - self_weight) * SHARES
    np.testing.assert_allclose(weights_of("fedap", self_weight=self_weight), expected, atol=1e-15)


def test_the_distances_behind_the_weights_are_kept_per_layer() -> None:
    mixing = make_strategy("fedap").mixing(EVIDENCE)
    assert mixing.layers == ("a", "b")
    assert mixing.distances is not None
    np.testing.assert_allclose(mixing.distances[0], [[0, 5, 0], [5, 0, 5], [0, 5, 0]], atol=1e-12)
    np.testing.assert_allclose(mixing.distances[1], [[0, 0, 15], [0, 0, 15], [15, 15, 0]], atol=1e-12)


def test_uncorrelated_channels_give_the_same_weights_with_full_covariances() -> None:
    np.testing.assert_allclose(weights_of("fedap", full_covariance=True), weights_of("fedap"), atol=1e-9)


def test_full_covariances_tell_members_apart_that_variances_do_not() -> None:
    """Members 0 and 1 have correlation 0, member 2 has 0.6, all with variances 1: W2^2 between them is
    tr(I + C - 2 C^(1/2)) = 4 - 2 (sqrt(1.6) + sqrt(0.4)) > 0; the diagonal distance is 0 for all pairs."""

    def one(correlation: float) -> BnStats:
        covariance = np.array([[1.0, correlation], [correlation, 1.0]])
        layer = LayerMoments(name="a", count=9, mean=np.zeros(2), variance=np.ones(2), covariance=covariance)
        return BnStats(samples=9, layers=(layer,))

    evidence = Evidence(counts=(1, 1, 1), stats=(one(0.0), one(0.0), one(0.6)))
    found = make_strategy("fedap", {"full_covariance": True}).mixing(evidence)
    assert found.distances is not None
    expected = np.sqrt(4.0 - 2.0 * (np.sqrt(1.6) + np.sqrt(0.4)))
    np.testing.assert_allclose(found.distances[0, 0], [0.0, 0.0, expected], atol=1e-9)
    np.testing.assert_allclose(found.weights[0], [0.5, 0.5, 0.0], atol=1e-9)
    np.testing.assert_allclose(make_strategy("fedap").mixing(evidence).weights[0], [0.5, 0.25, 0.25], atol=1e-15)


def test_no_peer_gives_more_than_the_cap() -> None:
    """Half for peers, capped at 0.3: row 0 (0.375, 0.125) -> 0.3 and 0.2; row 1 (0.4, 0.1) -> 0.3 and 0.2; row 2
    (2/7, 3/14) stays."""
    expected = [[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [2 / 7, 3 / 14, 0.5]]
    np.testing.assert_allclose(weights_of("fedap", max_peer_weight=0.3), expected, atol=1e-12)


def test_a_lone_member_keeps_its_own_model() -> None:
    alone = Evidence(counts=(5,), stats=EVIDENCE.stats[:1])
    assert make_strategy("fedap").mixing(alone).weights.tolist() == [[1.0]]


@pytest.mark.parametrize("name", FAMILY)
def test_without_statistics_there_are_no_weights(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"statistics: got none.*\({name} mixes by their distances\)"):
        make_strategy(name).mixing(Evidence(counts=(1, 1)))


def test_statistics_of_some_members_only_are_refused() -> None:
    with pytest.raises(InvalidInput, match="statistics: got 2 sets, expected one for each of 3 members"):
        Evidence(counts=(1, 1, 1), stats=EVIDENCE.stats[:2])


@pytest.mark.parametrize("name", FAMILY)
def test_without_one_member_the_diagonal_stays_and_others_are_rescaled(name: str) -> None:
    """Member 2 is missing: rows 0 and 1 keep half and take half of each other; member 2 itself, without an update of
    its own, receives the others in proportion 4 : 3."""
    present = np.array([True, True, False])
    strategy = make_strategy(name)
    weights = strategy.restrict(strategy.mixing(EVIDENCE).weights, usable=present, own=present)
    np.testing.assert_allclose(weights, [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [4 / 7, 3 / 7, 0.0]], atol=1e-15)


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("fedap", Measure.BN_INPUTS),
        ("fedap-sbn", Measure.BN_INPUTS),
        ("d-fedap", Measure.HEAD_INPUTS),
        ("f-fedap", Measure.NONE),
    ],
)
def test_what_is_measured_before_the_first_round(name: str, measure: Measure) -> None:
    assert make_strategy(name).first_measure is measure


@pytest.mark.parametrize("name", ["fedap", "fedap-sbn", "d-fedap"])
def test_every_round_is_mixed_and_measures_nothing_more(name: str) -> None:
    strategy = make_strategy(name)
    plans = [strategy.round_plan(round_no, 4) for round_no in range(4)]
    assert {(plan.phase, plan.measure) for plan in plans} == {(Phase.MIXED, Measure.NONE)}
    assert not strategy.depends_on_rounds


@pytest.mark.parametrize(("rounds", "measured_in"), [(1, 0), (2, 0), (3, 0), (4, 1), (10, 4), (11, 4)])
def test_f_fedap_spends_half_of_its_rounds_as_fedbn_and_mixes_by_the_last_of_them(
    rounds: int, measured_in: int
) -> None:
    """R = 10: R // 2 = 5 rounds train as FedBN, numbers 0 to 4. The last of them, 4, measures after training and is
    itself mixed by W. R = 1 has no half to spend: its only round measures."""
    strategy = make_strategy("f-fedap")
    assert strategy.depends_on_rounds
    for round_no in range(rounds):
        plan = strategy.round_plan(round_no, rounds)
        assert plan.phase is (FEDBN if round_no < measured_in else Phase.MIXED)
        assert plan.measure is (Measure.RUNNING if round_no == measured_in else Measure.NONE)
