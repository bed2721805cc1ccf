"""Laws of partitions and splits: disjoint, complete, groups and raw time never on two sides, same seed same result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.partition import by_site, dirichlet, dirichlet_pairs, iid
from fedap_core.splits import PROTOCOLS, split_client, split_overlapping

seeds = st.integers(0, 2**32 - 1)
protocols = st.sampled_from(sorted(PROTOCOLS.values()))

Divide = Callable[[IndexArray, IndexArray, int, float, np.random.Generator], tuple[IndexArray, ...]]

RULES: dict[str, Divide] = {
    "pairs": lambda labels, groups, clients, alpha, rng: dirichlet_pairs(
        labels, groups, clients=clients, alpha=alpha, rng=rng
    ),
    "plain": lambda labels, groups, clients, alpha, rng: dirichlet(
        labels, groups, clients=clients, alpha=alpha, rng=rng
    ),
    "iid": lambda labels, groups, clients, alpha, rng: iid(groups, clients=clients, rng=rng),
}


@st.composite
def samples(draw: st.DrawFn) -> tuple[IndexArray, IndexArray]:
    """Labels and groups of up to 300 samples: every sample its own group, or groups of uneven size, names with gaps."""
    n = draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(seeds))
    labels = rng.integers(0, draw(st.integers(1, 8)), size=n)
    groups = np.arange(n) if draw(st.booleans()) else 7 * rng.integers(0, draw(st.integers(1, 60)), size=n) - 3
    return labels, groups


@st.composite
def recordings(draw: st.DrawFn) -> tuple[IndexArray, IndexArray]:
    """Groups and spans of sliding windows over up to five recordings, with gaps, in any order."""
    rng = np.random.default_rng(draw(seeds))
    groups, spans = [], []
    for group in range(draw(st.integers(1, 5))):
        length = draw(st.integers(1, 50))
        start = draw(st.integers(0, 1000)) + np.cumsum(rng.integers(1, length + 3, size=draw(st.integers(1, 30))))
        groups.append(np.full(start.size, group))
        spans.append(np.stack((start, start + length), axis=1))
    order = rng.permutation(sum(part.size for part in groups))
    return np.concatenate(groups)[order], np.concatenate(spans)[order]


def assert_sorted_and_disjoint(parts: tuple[IndexArray, ...]) -> None:
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
    assert np.unique(np.concatenate(parts)).size == sum(part.size for part in parts)


def assert_groups_whole(groups: IndexArray, parts: tuple[IndexArray, ...]) -> None:
    owners = [set(groups[part].tolist()) for part in parts]
    assert sum(len(owner) for owner in owners) == len(set().union(*owners))


@pytest.mark.parametrize("rule", sorted(RULES))
@given(data=samples(), clients=st.integers(1, 7), alpha=st.sampled_from([0.01, 0.1, 1.0, 50.0]), seed=seeds)
@settings(max_examples=60, deadline=None)
def test_partition_is_complete_disjoint_whole_and_repeatable(
    rule: str, data: tuple[IndexArray, IndexArray], clients: int, alpha: float, seed: int
) -> None:
    labels, groups = data
    assume(np.unique(groups).size >= 4 * clients)
    divide = RULES[rule]
    try:
        parts = divide(labels, groups, clients, alpha, np.random.default_rng(seed))
    except InvalidInput:
        assert rule != "iid"  # enough groups for everyone: nothing can go wrong
        return
    assert len(parts) == clients
    assert min(part.size for part in parts) >= 1
    assert sum(part.size for part in parts) == labels.size
    assert_sorted_and_disjoint(parts)
    assert_groups_whole(groups, parts)
    again = divide(labels, groups, clients, alpha, np.random.default_rng(seed))
    assert [part.tolist() for part in again] == [part.tolist() for part in parts]


@given(data=samples())
@settings(deadline=None)
def test_sites_are_complete_disjoint_and_pure(data: tuple[IndexArray, IndexArray]) -> None:
    _, site = data
    found = by_site(site)
    assert_sorted_and_disjoint(tuple(mine for _, mine in found))
    assert sum(mine.size for _, mine in found) == site.size
    assert all((site[mine] == value).all() for value, mine in found)


@given(data=samples(), fractions=protocols, seed=seeds)
@settings(deadline=None)
def test_no_patient_is_on_two_sides_of_a_split(
    data: tuple[IndexArray, IndexArray], fractions: tuple[float, ...], seed: int
) -> None:
    labels, groups = data
    parts = split_client(labels, groups, None, fractions=fractions, rng=np.random.default_rng(seed))
    assert len(parts) == len(fractions)
    assert sum(part.size for part in parts) == labels.size
    assert_sorted_and_disjoint(parts)
    assert_groups_whole(groups, parts)
    again = split_client(labels, groups, None, fractions=fractions, rng=np.random.default_rng(seed))
    assert [part.tolist() for part in again] == [part.tolist() for part in parts]


@given(data=samples(), fractions=protocols, seed=seeds)
@settings(deadline=None)
def test_single_samples_are_divided_to_less_than_one_per_class(
    data: tuple[IndexArray, IndexArray], fractions: tuple[float, ...], seed: int
) -> None:
    labels, _ = data
    parts = split_overlapping(labels, fractions=fractions, rng=np.random.default_rng(seed))
    whole = np.bincount(labels)
    for part, fraction in zip(parts, fractions, strict=True):
        assert (np.abs(np.bincount(labels[part], minlength=whole.size) - fraction * whole) < 1 + 1e-9).all()


@given(data=recordings(), fractions=protocols)
@settings(max_examples=200, deadline=None)
def test_no_raw_time_step_is_on_two_sides_of_a_split(
    data: tuple[IndexArray, IndexArray], fractions: tuple[float, ...]
) -> None:
    groups, spans = data
    parts = split_client(groups, groups, spans, fractions=fractions, rng=np.random.default_rng(0))
    assert_sorted_and_disjoint(parts)
    steps = [
        {(int(groups[k]), step) for k in part for step in range(int(spans[k, 0]), int(spans[k, 1]))} for part in parts
    ]
    assert len(set().union(*steps)) == sum(len(side) for side in steps)


@given(data=recordings(), fractions=protocols)
@settings(deadline=None)
def test_only_windows_across_a_cut_are_dropped(
    data: tuple[IndexArray, IndexArray], fractions: tuple[float, ...]
) -> None:
    groups, spans = data
    parts = split_client(groups, groups, spans, fractions=fractions, rng=np.random.default_rng(0))
    dropped = np.setdiff1d(np.arange(groups.size), np.concatenate(parts))
    for k in dropped:
        mine = spans[groups == groups[k]]
        first, last = mine.min(), mine.max()
        cuts = [first + share * (last - first) for share in np.cumsum(fractions)[:-1]]
        assert any(spans[k, 0] - 0.5 < cut < spans[k, 1] + 0.5 for cut in cuts)
