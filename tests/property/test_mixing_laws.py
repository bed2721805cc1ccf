"""Laws of mixing matrices: rows sum to 1, nothing is negative, and what each rule keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import (
    age_discount,
    age_to_self,
    cap_peer_weight,
    check_mixing,
    mixing_from_counts,
    mixing_from_distances,
    restrict,
)

unit = st.floats(0.0, 1.0)
self_weights = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | unit


@st.composite
def distance_tables(draw: st.DrawFn, min_size: int = 1) -> FloatArray:
    """Symmetric, zero diagonal, with twins and with distances of very different size."""
    n = draw(st.integers(min_size, 7))
    entry = st.just(0.0) | st.floats(0.0, 1e3) | st.sampled_from([5e-324, 1e-200, 1e200])
    upper = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            upper[i, j] = draw(entry)
    return upper + upper.T


@st.composite
def mixings(draw: st.DrawFn) -> FloatArray:
    """Square matrices of weights of all origins: distances, counts, sparse rows."""
    kind = draw(st.sampled_from(["distances", "counts", "sparse"]))
    if kind == "distances":
        return mixing_from_distances(draw(distance_tables()), self_weight=draw(self_weights))
    n = draw(st.integers(1, 7))
    rows = [draw(st.lists(st.just(0.0) | st.floats(0.0, 1e6), min_size=n, max_size=n)) for _ in range(n)]
    assume(all(max(row) > 0 for row in rows))
    stacked = np.stack([mixing_from_counts(np.array(row))[0] for row in rows])
    return np.tile(stacked[0], (n, 1)) if kind == "counts" else stacked


@dataclass(frozen=True)
class Attendance:
    """Who is there: see `restrict`."""

    usable: BoolArray
    own: BoolArray
    discount: FloatArray | None


@st.composite
def attendances(draw: st.DrawFn, n: int) -> Attendance:
    usable = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_)
    fresh = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_)
    discount = draw(st.none() | st.lists(unit, min_size=n, max_size=n))
    return Attendance(
        usable=usable, own=usable & fresh, discount=None if discount is None else np.array(discount, dtype=np.float64)
    )


def off_diagonal(mixing: FloatArray) -> FloatArray:
    return mixing - np.diag(mixing.diagonal())


@given(distances=distance_tables(), self_weight=self_weights)
@settings(deadline=None)
def test_fedap_weights_keep_the_self_weight_and_favour_the_closer(distances: FloatArray, self_weight: float) -> None:
    mixing = mixing_from_distances(distances, self_weight=self_weight)
    check_mixing(mixing)
    n = len(mixing)
    assert mixing.diagonal().tolist() == ([self_weight] * n if n >= 2 else [1.0])
    for i in range(n):
        others = [j for j in range(n) if j != i]
        by_distance = sorted(others, key=lambda j, i=i: distances[i, j])  # type: ignore[misc]
        weights = mixing[i, by_distance]
        assert (np.diff(weights) <= 0).all()


@given(counts=st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_count_weights_are_one_row_for_all(counts: list[int]) -> None:
    assume(max(counts) > 0)
    mixing = mixing_from_counts(np.array(counts))
    check_mixing(mixing)
    np.testing.assert_allclose(mixing, np.tile(np.array(counts) / sum(counts), (len(counts), 1)), rtol=1e-14)


@given(mixing=mixings(), cap=unit)
@settings(deadline=None)
def test_no_peer_exceeds_the_cap_and_no_member_loses_of_its_own(mixing: FloatArray, cap: float) -> None:
    capped = cap_peer_weight(mixing, max_peer_weight=cap)
    check_mixing(capped)
    assert (off_diagonal(capped) <= cap).all()
    assert (capped.diagonal() >= mixing.diagonal()).all()
    assert not off_diagonal(capped)[off_diagonal(mixing) == 0].any()
    below = (off_diagonal(mixing) <= cap).all(axis=1)
    assert capped[below].tolist() == mixing[below].tolist()


@given(mixing=mixings(), cap=unit)
@settings(deadline=None)
def test_weight_returns_to_oneself_only_when_every_peer_with_weight_is_capped(mixing: FloatArray, cap: float) -> None:
    capped = cap_peer_weight(mixing, max_peer_weight=cap)
    gained = capped.diagonal() > mixing.diagonal() + 1e-9
    peers = (off_diagonal(mixing) > 0) & gained[:, None]
    assert (capped[peers] >= cap - 1e-12).all()


@given(mixing=mixings(), data=st.data(), exponent=st.floats(0.0, 3.0))
@settings(deadline=None)
def test_age_moves_weight_to_oneself_and_to_nobody_else(
    mixing: FloatArray, data: st.DataObject, exponent: float
) -> None:
    n = len(mixing)
    ages = np.array(data.draw(st.lists(st.just(0.0) | st.floats(0.0, 1e6), min_size=n, max_size=n)))
    aged = age_to_self(mixing, ages=ages, exponent=exponent)
    check_mixing(aged)
    assert (aged.diagonal() >= mixing.diagonal()).all()
    assert (off_diagonal(aged) <= off_diagonal(mixing)).all()
    assert age_to_self(mixing, ages=np.zeros(n), exponent=exponent).tolist() == mixing.tolist()


@given(ages=st.lists(st.floats(0.0, 1e9), min_size=1, max_size=9), exponent=st.floats(0.0, 10.0))
def test_discount_is_between_zero_and_one_and_falls_with_age(ages: list[float], exponent: float) -> None:
    discount = age_discount(np.sort(ages), exponent=exponent)
    assert ((discount >= 0) & (discount <= 1)).all()
    assert (np.diff(discount) <= 0).all()


@given(mixing=mixings(), data=st.data(), self_weight=st.none() | self_weights)
@settings(max_examples=200, deadline=None)
def test_restriction_gives_weights_to_usable_members_only(
    mixing: FloatArray, data: st.DataObject, self_weight: float | None
) -> None:
    n = len(mixing)
    there = data.draw(attendances(n))
    worth = np.where(there.usable, 1.0 if there.discount is None else there.discount, 0.0)
    sources = (np.outer(np.ones(n), worth > 0) * (1 - np.eye(n))).sum(axis=1) + there.own
    try:
        found = restrict(mixing, usable=there.usable, own=there.own, discount=there.discount, self_weight=self_weight)
    except InvalidInput:
        assert (sources == 0).any()
        return
    assert (sources > 0).all()
    check_mixing(found)
    assert not found[:, ~there.usable].any()
    assert not off_diagonal(found)[:, worth == 0].any()
    assert not found.diagonal()[~there.own].any()
    if self_weight is not None and not (there.own.all() and (worth == 1).all()):
        mixed = there.own & (off_diagonal(mixing) * worth > 0).any(axis=1)
        assert (found.diagonal()[mixed] == self_weight).all()
        assert (found.diagonal()[there.own & ~mixed] == 1.0).all()


@given(mixing=mixings(), data=st.data(), self_weight=st.none() | self_weights)
@settings(deadline=None)
def test_restriction_keeps_the_proportions_among_others(
    mixing: FloatArray, data: st.DataObject, self_weight: float | None
) -> None:
    """w_ij : w_ik stays w_ij discount_j : w_ik discount_k, in every row that gives others any weight."""
    n = len(mixing)
    there = data.draw(attendances(n))
    worth = np.where(there.usable, 1.0 if there.discount is None else there.discount, 0.0)
    assume(there.own[worth > 0].any())  # then everyone has a source
    found = off_diagonal(
        restrict(mixing, usable=there.usable, own=there.own, discount=there.discount, self_weight=self_weight)
    )
    before = off_diagonal(mixing) * worth
    for row, old in zip(found, before, strict=True):
        if row.sum() > 1e-6 and old.sum() > 1e-6:
            np.testing.assert_allclose(row / row.sum(), old / old.sum(), rtol=1e-9, atol=1e-12)
