"""Recordings recovered from shuffled, half-overlapping windows, on made-up files and on the real one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.data.har import chains, load
from tests.support.datafiles import real_data, write_har

Halves = list[tuple[int, int, int]]


def test_shuffled_windows_return_to_their_recordings(tmp_path: Path) -> None:
    """Two people, three recordings: 5, 4 and 1 windows; the windows of each start 64 steps apart."""
    truth = write_har(tmp_path / "uci_har.npz", chains=[(3, 0, 5), (3, 1, 4), (17, 5, 1)])
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.x.shape == (10, 9, 128)
    assert dataset.x.dtype == np.float32
    assert dataset.overlapping
    assert dataset.site_names == ("subject-3", "subject-17")
    assert dataset.span is not None
    assert len(np.unique(dataset.group)) == 3
    for number, windows in enumerate((5, 4, 1)):
        members = truth == number
        assert len(np.unique(dataset.group[members])) == 1
        assert sorted(dataset.span[members].tolist()) == [[64 * at, 64 * at + 128] for at in range(windows)]
        assert len(np.unique(dataset.y[members])) == 1


def test_neighbours_in_time_share_their_halves(tmp_path: Path) -> None:
    write_har(tmp_path / "uci_har.npz", chains=[(1, 2, 6)])
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.span is not None
    ordered = dataset.x[np.argsort(dataset.span[:, 0])]
    assert np.array_equal(ordered[:-1, :, 64:], ordered[1:, :, :64])


def windows_of(halves: Halves) -> tuple[NDArray[np.float16], IndexArray]:
    """One-channel windows of two steps: (person, first half, second half)."""
    values = np.array([[[first, second]] for _, first, second in halves], dtype=np.float16)
    return values, np.array([who for who, _, _ in halves], dtype=np.int64)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14))
def test_an_equal_half_is_one_time_of_one_chain_however_halves_repeat(halves: Halves) -> None:
    """Law: a person's equal halves lie in one chain; unless the chain collapsed onto place 0, at one time in it."""
    group, place = chains(*windows_of(halves))
    seen: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for at, (who, first, second) in enumerate(halves):
        collapsed = not place[group == group[at]].any()
        seen[who, first].add((int(group[at]), 0 if collapsed else int(place[at])))
        seen[who, second].add((int(group[at]), 0 if collapsed else int(place[at]) + 1))
    assert all(len(times) == 1 for times in seen.values())


def test_people_never_share_a_chain_even_with_equal_halves() -> None:
    group, _ = chains(*windows_of([(1, 5, 6), (2, 6, 7)]))
    assert group.tolist() == [0, 1]


def test_a_branch_keeps_its_order() -> None:
    """1-2 is followed by both 2-3 and 2-4: both come one place later."""
    group, place = chains(*windows_of([(0, 2, 3), (0, 1, 2), (0, 2, 4)]))
    assert group.tolist() == [0, 0, 0]
    assert place.tolist() == [1, 0, 1]


def test_a_sensor_at_rest_collapses_its_chain_onto_one_place() -> None:
    """5-5 follows itself, so no order explains 4-5, 5-5, 5-6: they stay together at place 0."""
    group, place = chains(*windows_of([(0, 4, 5), (0, 5, 5), (0, 5, 6)]))
    assert group.tolist() == [0, 0, 0]
    assert place.tolist() == [0, 0, 0]


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"uci_har.npz: got no such file.*FEDAP_DATA"):
        load(DataOptions(root=tmp_path))
    path = tmp_path / "uci_har.npz"
    np.savez(path, x=np.zeros((2, 9, 64), dtype=np.float16), y=np.zeros(2, np.uint8), subject=np.ones(2, np.uint8))
    with pytest.raises(InvalidInput, match=r"uci_har.npz: x: got shape \(2, 9, 64\)"):
        load(DataOptions(root=tmp_path))
    np.savez(path, x=np.zeros((2, 9, 128), dtype=np.int16), y=np.zeros(2, np.uint8), subject=np.ones(2, np.uint8))
    with pytest.raises(InvalidInput, match="floating-point"):
        load(DataOptions(root=tmp_path))
    np.savez(path, x=np.zeros((2, 9, 128), dtype=np.float16), y=np.full(2, 6, np.uint8), subject=np.ones(2, np.uint8))
    with pytest.raises(InvalidInput, match="y: got values from 6 to 6"):
        load(DataOptions(root=tmp_path))


def test_the_real_file_falls_into_857_chains_of_one_activity_each() -> None:
    """9,442 of 10,299 windows have a successor: 10,299 - 9,442 = 857 chains, none mixing people or activities."""
    dataset = load(DataOptions(root=real_data("uci_har.npz")))
    assert dataset.site is not None
    assert dataset.span is not None
    assert len(dataset) == 10_299
    assert len(dataset.site_names) == 30
    assert len(np.unique(dataset.group)) == 857
    assert len(np.unique(np.stack((dataset.group, dataset.y, dataset.site)), axis=1).T) == 857
    assert len(np.unique(np.stack((dataset.group, dataset.span[:, 0])), axis=1).T) == 10_299
