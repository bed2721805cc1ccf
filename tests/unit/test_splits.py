"""Claims about train and test: class by class, patients and recordings whole, enough of both."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.splits import (
    OVERLAPPING_LABEL,
    PROTOCOLS,
    cut_validation,
    require_samples,
    split_client,
    split_overlapping,
)

HALVES = PROTOCOLS["paper"]
REMEDY = "Add patients."


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def singles(n: int) -> IndexArray:
    return np.arange(n, dtype=np.int64)


def windows(count: int, *, length: int, step: int) -> IndexArray:
    start = step * np.arange(count, dtype=np.int64)
    return np.stack((start, start + length), axis=1)


def counts(labels: IndexArray, split: tuple[IndexArray, ...]) -> list[list[int]]:
    return [np.bincount(labels[part], minlength=int(labels.max()) + 1).tolist() for part in split]


def test_protocols_are_those_of_the_paper_and_of_its_code() -> None:
    assert dict(PROTOCOLS) == {"paper": (0.5, 0.5), "reference": (0.4, 0.3, 0.3)}


def test_every_class_is_divided_at_the_fractions() -> None:
    """20, 10 and 50 samples at 40 / 30 / 30."""
    labels = np.repeat(np.arange(3), [20, 10, 50])
    split = split_client(labels, singles(80), None, fractions=PROTOCOLS["reference"], rng=rng())
    assert counts(labels, split) == [[8, 4, 20], [6, 3, 15], [6, 3, 15]]


def test_odd_samples_of_many_classes_do_not_all_fall_on_one_side() -> None:
    """Ten classes of one sample: rounding class by class would put all ten on one side."""
    train, test = split_client(singles(10), singles(10), None, fractions=HALVES, rng=rng())
    assert (train.size, test.size) == (5, 5)


def test_patients_with_several_classes_stay_whole_and_classes_stay_balanced() -> None:
    """Four patients with (6, 0), (6, 0), (0, 4), (0, 4) samples and two with (2, 2): 16 and 12 in all, half is 8 and 6:
    one of each kind on either side.
    """
    table = [(6, 0), (6, 0), (0, 4), (0, 4), (2, 2), (2, 2)]
    labels = np.concatenate([[0] * zeros + [1] * ones for zeros, ones in table]).astype(np.int64)
    groups = np.repeat(np.arange(6), [sum(row) for row in table])
    split = split_client(labels, groups, None, fractions=HALVES, rng=rng())
    assert counts(labels, split) == [[8, 6], [8, 6]]
    assert not set(groups[split[0]]) & set(groups[split[1]])


def by_the_rule(
    labels: IndexArray, groups: IndexArray, fractions: tuple[float, ...], rng: np.random.Generator
) -> list[list[int]]:
    """Groups, shuffled, largest first, each to the part that needs it most, in so many words."""
    names, classes = np.unique(groups), np.unique(labels)
    counts = np.array([[np.sum((groups == name) & (labels == one)) for one in classes] for name in names], dtype=float)
    need = np.outer(fractions, counts.sum(axis=0))
    missing = need.sum(axis=1)
    order = rng.permutation(names.size)
    parts: list[list[int]] = [[] for _ in fractions]
    for group in order[np.argsort(-counts.sum(axis=1)[order], kind="stable")]:
        gain = (need * (counts[group] / counts.sum(axis=0))).sum(axis=1)
        equal = np.flatnonzero(gain >= gain.max() - 1e-9)
        part = equal[missing[equal].argmax()]
        need[part] -= counts[group]
        missing[part] -= counts[group].sum()
        parts[part] += np.flatnonzero(groups == names[group]).tolist()
    return [sorted(part) for part in parts]


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.4, 0.3, 0.3)])
@pytest.mark.parametrize("kind", ["alone", "groups of one class", "groups of several classes"])
def test_division_follows_the_rule_whatever_the_groups(kind: str, fractions: tuple[float, ...]) -> None:
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 5, 150)
    groups = {
        "alone": np.arange(150),
        "groups of one class": labels * 10 + draw.integers(0, 6, 150),
        "groups of several classes": draw.integers(0, 40, 150),
    }[kind]
    found = split_client(labels, groups, None, fractions=fractions, rng=np.random.default_rng(9))
    assert [part.tolist() for part in found] == by_the_rule(labels, groups, fractions, np.random.default_rng(9))


def test_two_patients_are_one_on_each_side_however_large() -> None:
    groups = np.repeat([0, 1], [90, 10])
    split = split_client(np.zeros(100, dtype=np.int64), groups, None, fractions=HALVES, rng=rng())
    assert [part.size for part in split] == [90, 10]


def test_recording_is_cut_in_time_and_windows_across_the_cut_are_dropped() -> None:
    """Six windows of 100 steps every 50: [0, 100), [50, 150), ... [250, 350). The cut is at 175: 0 and 1 end before
    it, 4 and 5 begin after it; [100, 200) and [150, 250) cross.
    """
    labels = np.array([0, 0, 0, 1, 1, 1])
    spans = windows(6, length=100, step=50)
    train, test = split_client(labels, np.zeros(6, dtype=np.int64), spans, fractions=HALVES, rng=rng())
    assert (train.tolist(), test.tolist()) == ([0, 1], [4, 5])


def test_windows_that_touch_the_cut_are_kept() -> None:
    """Windows of 10 steps side by side over 40: the cut at 20 falls between two windows."""
    spans = windows(4, length=10, step=10)
    train, test = split_client(singles(4), np.zeros(4, dtype=np.int64), spans, fractions=HALVES, rng=rng())
    assert (train.tolist(), test.tolist()) == ([0, 1], [2, 3])


def test_every_recording_is_cut_by_its_own_length() -> None:
    """Recording 5 spans steps 0 to 100, recording 9 steps 1000 to 1020, interleaved in the table; cuts at 40 and 70
    percent: 40, 70 and 1008, 1014.
    """
    spans = np.array([[0, 20], [1000, 1004], [20, 40], [1004, 1008], [40, 70], [1008, 1014], [70, 100], [1013, 1020]])
    groups = np.array([5, 9] * 4)
    split = split_client(singles(8), groups, spans, fractions=PROTOCOLS["reference"], rng=rng())
    assert [part.tolist() for part in split] == [[0, 1, 2, 3], [4, 5], [6]]


def test_overlapping_split_uses_every_window_and_has_a_name_that_warns() -> None:
    labels = np.repeat(np.arange(2), [6, 4])
    split = split_overlapping(labels, fractions=HALVES, rng=rng())
    assert counts(labels, split) == [[3, 2], [3, 2]]
    assert OVERLAPPING_LABEL == "overlapping windows"


def test_client_with_enough_of_everything_is_accepted() -> None:
    require_samples("p3", (singles(32), singles(1), singles(1)), remedy=REMEDY)
    require_samples("p3", (singles(4), singles(1)), min_train=4, remedy=REMEDY)


def test_client_with_too_few_training_samples_is_refused_with_a_remedy() -> None:
    with pytest.raises(
        InvalidInput, match=r"training samples of client p3: got 31, expected at least 32. Add patients"
    ):
        require_samples("p3", (singles(31), singles(40)), remedy=REMEDY)


@pytest.mark.parametrize("rest", [(0,), (0, 5), (5, 0)])
def test_client_with_an_empty_part_is_refused_with_a_remedy(rest: tuple[int, ...]) -> None:
    with pytest.raises(
        InvalidInput, match=r"samples of client p3: got 40 / .*at least one in every part. Add patients"
    ):
        require_samples("p3", (singles(40), *(singles(size) for size in rest)), remedy=REMEDY)


@pytest.mark.parametrize("fractions", [(1.0,), (0.5, 0.4), (1.0, 0.0), (1.2, -0.2)])
def test_wrong_fractions_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="fractions"):
        split_client(singles(4), singles(4), None, fractions=fractions, rng=rng())


@pytest.mark.parametrize("spans", [np.zeros((3, 2)), np.array([[0, 1]] * 3 + [[5, 5]])])
def test_wrong_spans_are_refused(spans: IndexArray) -> None:
    with pytest.raises(InvalidInput, match="spans"):
        split_client(singles(4), singles(4), spans.astype(np.int64), fractions=HALVES, rng=rng())


@pytest.mark.parametrize(("labels", "groups"), [(singles(3), singles(4)), (singles(0), singles(0))])
def test_labels_and_groups_of_wrong_shape_are_refused(labels: IndexArray, groups: IndexArray) -> None:
    with pytest.raises(InvalidInput, match="one label and one group per sample"):
        split_client(labels, groups, None, fractions=HALVES, rng=rng())


def test_validation_is_held_back_by_whole_patients_from_the_training_positions_alone() -> None:
    """Ten patients of four samples; six of them train. A third of 24 samples is two patients."""
    labels, groups = np.tile([0, 1], 20).astype(np.int64), np.repeat(np.arange(10), 4)
    train = np.flatnonzero(groups < 6).astype(np.int64)
    left, held = cut_validation(train, labels, groups, None, share=1 / 3, rng=rng())
    assert sorted([*left, *held]) == list(train)
    assert len(held) == 8
    assert not set(groups[left]) & set(groups[held])


@pytest.mark.parametrize(("share", "patients"), [(0.0, 6), (0.2, 1)])
def test_nothing_is_held_back_where_nothing_is_asked_for_or_one_patient_is_all(share: float, patients: int) -> None:
    groups = np.repeat(np.arange(patients), 4)
    train = singles(len(groups))
    left, held = cut_validation(train, np.zeros_like(train), groups, None, share=share, rng=rng())
    assert (list(left), list(held)) == (list(train), [])


def test_two_recordings_of_each_class_are_not_too_coarse_to_hold_one_of_some_back() -> None:
    """Seven classes of two recordings with four windows that overlap: a fifth of 56 samples is 11.2, so three of 4."""
    labels, groups = np.repeat(np.arange(7), 8), np.repeat(np.arange(14), 4)
    spans = np.tile(windows(4, length=20, step=10), (14, 1))
    left, held = cut_validation(singles(56), labels, groups, spans, share=0.2, rng=rng())
    assert len(held) == 12
    assert not set(groups[left]) & set(groups[held])
    assert set(labels[left]) == set(range(7))


def test_single_recordings_are_cut_in_time() -> None:
    """Two recordings of ten windows apart from each other, one class each: the last fifth of either is held back."""
    labels = groups = np.repeat(np.arange(2), 10)
    spans = np.tile(windows(10, length=10, step=10), (2, 1))
    left, held = cut_validation(singles(20), labels, groups, spans, share=0.2, rng=rng())
    assert (list(held), len(left)) == ([8, 9, 18, 19], 16)
