"""Claims about mixing matrices: the weights of eq. 7-8, caps and ages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import (
    age_discount,
    age_to_self,
    cap_peer_weight,
    check_mixing,
    identity_mixing,
    mixing_from_counts,
    mixing_from_distances,
)

THREE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 4.0], [2.0, 4.0, 0.0]])
"""Distances among three clients."""


def fedap() -> FloatArray:
    """Of THREE with self weight 1/2. Inverse distances: row 0 has 1 and 1/2, row 1 has 1 and 1/4, row 2 has 1/2, 1/4.

    Normalised: (2/3, 1/3), (4/5, 1/5), (2/3, 1/3); times 1/2: (1/3, 1/6), (2/5, 1/10), (1/3, 1/6).
    """
    return np.array([[1 / 2, 1 / 3, 1 / 6], [2 / 5, 1 / 2, 1 / 10], [1 / 3, 1 / 6, 1 / 2]])


def test_weights_are_inverse_distances() -> None:
    np.testing.assert_allclose(mixing_from_distances(THREE, self_weight=0.5), fedap(), rtol=1e-15)


def test_weights_do_not_depend_on_the_unit_of_distance() -> None:
    for unit in (1e-300, 1e-9, 1e12, 1e300):
        np.testing.assert_allclose(mixing_from_distances(THREE * unit, self_weight=0.5), fedap(), rtol=1e-14)


def test_lone_client_keeps_its_own_model() -> None:
    for self_weight in (0.0, 0.5, 1.0):
        assert mixing_from_distances(np.zeros((1, 1)), self_weight=self_weight).tolist() == [[1.0]]


def test_two_clients_share_whatever_their_distance() -> None:
    for distance in (0.0, 1e-300, 5.0):
        distances = np.array([[0.0, distance], [distance, 0.0]])
        assert mixing_from_distances(distances, self_weight=0.25).tolist() == [[0.25, 0.75], [0.75, 0.25]]


def test_identical_clients_share_equally() -> None:
    mixing = mixing_from_distances(np.zeros((5, 5)), self_weight=0.2)
    np.testing.assert_allclose(mixing, np.full((5, 5), 0.2), rtol=1e-15)


def test_twins_get_all_the_weight_of_each_other() -> None:
    """0 and 1 are twins, 2 is at distance 3 from both: the limit of 1 / d as d goes to 0."""
    distances = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 3.0, 0.0]])
    mixing = mixing_from_distances(distances, self_weight=0.5)
    assert mixing.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]


def test_self_weight_one_is_the_identity_and_zero_leaves_nothing_of_oneself() -> None:
    assert mixing_from_distances(THREE, self_weight=1.0).tolist() == np.eye(3).tolist()
    mixing = mixing_from_distances(THREE, self_weight=0.0)
    assert mixing.diagonal().tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(mixing[0], [0.0, 2 / 3, 1 / 3], rtol=1e-15)


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (np.zeros((2, 3)), "shape"),
        (np.zeros((0, 0)), "shape"),
        (np.zeros(3), "shape"),
        (np.array([[0.0, math.nan], [math.nan, 0.0]]), "finite"),
        (np.array([[0.0, math.inf], [math.inf, 0.0]]), "finite"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "numbers >= 0"),
        (np.array([[0.0, 1.0], [1.0, 0.5]]), "on the diagonal"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "both directions"),
    ],
)
def test_wrong_distances_are_refused(distances: FloatArray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        mixing_from_distances(distances, self_weight=0.5)


@pytest.mark.parametrize("self_weight", [-0.1, 1.1, math.nan])
def test_self_weight_outside_zero_to_one_is_refused(self_weight: float) -> None:
    with pytest.raises(InvalidInput, match="self_weight"):
        mixing_from_distances(THREE, self_weight=self_weight)


def test_sample_counts_weigh_every_row_alike() -> None:
    assert mixing_from_counts(np.array([1, 1, 2])).tolist() == [[0.25, 0.25, 0.5]] * 3
    assert mixing_from_counts(np.ones(4)).tolist() == [[0.25] * 4] * 4
    assert mixing_from_counts(np.array([0, 3])).tolist() == [[0.0, 1.0]] * 2
    assert mixing_from_counts(np.array([1e308, 1e308])).tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize("counts", [[0, 0], [], [1, -1], [1, math.nan], [1, math.inf], [[1, 2]]])
def test_wrong_counts_are_refused(counts: list[float]) -> None:
    with pytest.raises(InvalidInput, match="counts"):
        mixing_from_counts(np.array(counts, dtype=np.float64))


def test_identity_leaves_everyone_alone() -> None:
    assert identity_mixing(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(InvalidInput, match="members"):
        identity_mixing(0)


def test_what_a_capped_peer_gives_up_goes_to_the_others_and_then_to_oneself() -> None:
    """Cap 0.3. Row 0: 0.5 -> 0.3, its 0.2 goes to 0.1 and 0.1 in proportion: 0.2 each.

    Row 1: 0.45 -> 0.3, 0.15 to 0.2 and 0.05 as 4 : 1, so 0.32 and 0.08; 0.32 -> 0.3, 0.02 more to the last: 0.1.
    Row 2: two peers hold 0.4 each and the third 0: it stays 0, 0.2 returns to the member: 0.4. Row 3 is below the cap.
    """
    mixing = np.array([[0.3, 0.5, 0.1, 0.1], [0.45, 0.3, 0.2, 0.05], [0.4, 0.4, 0.2, 0.0], [0.1, 0.1, 0.1, 0.7]])
    expected = [[0.3, 0.3, 0.2, 0.2], [0.3, 0.3, 0.3, 0.1], [0.3, 0.3, 0.4, 0.0], [0.1, 0.1, 0.1, 0.7]]
    capped = cap_peer_weight(mixing, max_peer_weight=0.3)
    np.testing.assert_allclose(capped, expected, rtol=1e-14)
    assert capped[3].tolist() == mixing[3].tolist()


def test_cap_breaks_the_hold_of_a_member_that_copies_statistics() -> None:
    """1 copies 0's statistics and so gets all of row 0's 0.5; capped at 0.2, 0.3 goes back to 0 (2 has weight 0)."""
    distances = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 3.0, 0.0]])
    capped = cap_peer_weight(mixing_from_distances(distances, self_weight=0.5), max_peer_weight=0.2)
    np.testing.assert_allclose(capped[0], [0.8, 0.2, 0.0], rtol=1e-15)


def test_cap_of_zero_leaves_everyone_alone_and_cap_of_one_changes_nothing() -> None:
    assert cap_peer_weight(fedap(), max_peer_weight=0.0).diagonal() == pytest.approx([1.0, 1.0, 1.0])
    assert cap_peer_weight(fedap(), max_peer_weight=1.0).tolist() == fedap().tolist()


@pytest.mark.parametrize("cap", [-0.1, 1.5, math.nan])
def test_cap_outside_zero_to_one_is_refused(cap: float) -> None:
    with pytest.raises(InvalidInput, match="max_peer_weight"):
        cap_peer_weight(fedap(), max_peer_weight=cap)


def test_age_discount_falls_as_a_power() -> None:
    """(1 + 0)^-1/2 = 1, (1 + 3)^-1/2 = 1/2, (1 + 8)^-1/2 = 1/3."""
    assert age_discount(np.array([0, 3, 8]), exponent=0.5) == pytest.approx([1.0, 1 / 2, 1 / 3])
    assert age_discount(np.array([0.0, 7.5]), exponent=0.0).tolist() == [1.0, 1.0]
    assert age_discount(np.array([0, 1]), exponent=math.inf).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("ages", [[-1.0], [math.nan], [math.inf], [[1.0]]])
def test_wrong_ages_are_refused(ages: list[float]) -> None:
    with pytest.raises(InvalidInput, match="ages"):
        age_discount(np.array(ages), exponent=0.5)


@pytest.mark.parametrize("exponent", [-0.5, math.nan])
def test_wrong_exponent_is_refused(exponent: float) -> None:
    with pytest.raises(InvalidInput, match="exponent"):
        age_discount(np.zeros(2), exponent=exponent)


def test_weight_lost_by_age_goes_to_oneself() -> None:
    """Ages (0, 3, 8) at exponent 1/2 are worth (1, 1/2, 1/3).

    Row 0: 1/3 -> 1/6, 1/6 -> 1/18, so 1/2 + 1/6 + 1/9 = 7/9. Row 1: 2/5 stays, 1/10 -> 1/30: 1/2 + 1/15 = 17/30.
    Row 2: 1/3 stays, 1/6 -> 1/12: 7/12.
    """
    aged = age_to_self(fedap(), ages=np.array([0, 3, 8]), exponent=0.5)
    expected = [[7 / 9, 1 / 6, 1 / 18], [2 / 5, 17 / 30, 1 / 30], [1 / 3, 1 / 12, 7 / 12]]
    np.testing.assert_allclose(aged, expected, rtol=1e-14)


def test_ages_must_match_the_members() -> None:
    with pytest.raises(InvalidInput, match="ages"):
        age_to_self(fedap(), ages=np.zeros(2), exponent=0.5)


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (np.ones(1), "shape"),
        (np.ones((0, 2)), "shape"),
        (np.array([[1.0, math.nan]]), "NaN or Inf"),
        (np.array([[1.5, -0.5]]), "weights >= 0"),
        (np.array([[1.0, 0.0], [0.5, 0.49]]), "row 1: got 0.99"),
    ],
)
def test_what_is_not_a_table_of_weights_is_refused(mixing: FloatArray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_mixing(mixing)


def test_fewer_receivers_than_givers_are_legal_for_mixing_but_not_for_changing_weights() -> None:
    rows = np.array([[0.5, 0.25, 0.25]])
    check_mixing(rows)
    with pytest.raises(InvalidInput, match="as many receivers as givers"):
        cap_peer_weight(rows, max_peer_weight=0.1)
