"""Divide one client's samples into train, [validation,] test.

Computes index lists from labels, groups and time spans only. Law: no group and, for windows cut from recordings, no raw
time step is on two sides; `split_overlapping` breaks this law on purpose, as its name says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.errors import InvalidInput

Split: TypeAlias = tuple[IndexArray, ...]
"""Sorted, disjoint index arrays: train first, test last, validation between if there is one."""

PROTOCOLS = MappingProxyType({"paper": (0.5, 0.5), "reference": (0.4, 0.3, 0.3)})
"""Fractions of train, [validation,] test by the name of the experimental protocol."""

VALIDATION_SHARE = 0.2
"""Default share of the training samples that is held back to choose between models."""

OVERLAPPING_LABEL = "overlapping windows"
"""Marks all figures from `split_overlapping`: neighbours in time are on both sides."""

MIN_TRAIN_SAMPLES = 32
"""One batch of the paper's size; below it, neither BN statistics nor an accuracy mean much."""

_FEWEST_TO_TRAIN = 2
"""Batch norm cannot train on one sample."""

_SAME_NEED = 1e-9
"""Needs closer than this count as equal: they differ only by rounding."""


def split_client(
    labels: IndexArray,
    groups: IndexArray,
    spans: IndexArray | None,
    *,
    fractions: Sequence[float],
    rng: np.random.Generator,
) -> Split:
    """Divide a client's n samples at `fractions`. labels, groups: (n,). Returns indices into them, one array per part.

    spans None: groups are atomic, and every class is divided at the fractions as closely as its groups allow; if every
    sample is its own group, to less than one sample. All samples are used.
    spans (n, 2): the raw time steps [start, stop) of each window inside its group. Every recording is cut in time at
    the fractions of its length, train first; windows that cross a cut are dropped. This split is deterministic.
    """
    _check(labels, groups, spans, fractions)
    if spans is not None:
        return _collect(_cut_in_time(groups, spans, fractions), len(fractions))
    return _collect(_stratify(labels, groups, fractions, rng), len(fractions))


def cut_validation(
    train: IndexArray,
    labels: IndexArray,
    groups: IndexArray,
    spans: IndexArray | None,
    *,
    share: float,
    rng: np.random.Generator,
) -> Split:
    """Hold back `share` of the training samples to choose between models: (remaining training samples, validation).

    train: positions in labels, groups (n,) and spans (n, 2); they contain no test samples. The same law as
    `split_client`: no time step on both sides, and no group unless a recording has to be cut in time. Tried in turn
    until at least half of the share is held back: groups divided class by class; random whole groups, leaving some of
    every class; a cut of every recording in time. If none suffices, the one that held back most. Validation is empty if
    `share` is 0, or if every cut leaves one side empty (the samples of a single patient), or too few samples to train
    on: such a client has no validation part and no choice between models.
    """
    nothing = train[:0]
    if share == 0.0:
        return train, nothing
    mine, whose, parts = labels[train], groups[train], (1.0 - share, share)
    found = [split_client(mine, whose, None, fractions=parts, rng=rng), _whole_groups(mine, whose, share, rng)]
    if spans is not None:
        found.append(split_client(mine, whose, spans[train], fractions=parts, rng=rng))
    possible = [(left, held) for left, held in found if len(left) and len(held)]
    if not possible:
        return train, nothing
    enough = [cut for cut in possible if len(cut[1]) >= share * len(train) / 2.0]
    left, held = enough[0] if enough else max(possible, key=lambda cut: len(cut[1]))
    if len(left) < _FEWEST_TO_TRAIN:
        return train, nothing
    return train[left], train[held]


def _whole_groups(labels: IndexArray, groups: IndexArray, share: float, rng: np.random.Generator) -> Split:
    """Return (left, held): groups in random order are held back while the share lacks at least half of one, unless a
    class would have no samples left."""
    asked, held = share * len(labels), np.zeros(len(labels), dtype=np.bool_)
    for group in rng.permutation(np.unique(groups)):
        taken = held | (groups == group)
        lacks = asked - held.sum() >= 0.5 * (taken.sum() - held.sum())
        if lacks and set(labels[taken]) <= set(labels[~taken]):
            held = taken
    return np.flatnonzero(~held), np.flatnonzero(held)


def split_overlapping(labels: IndexArray, *, fractions: Sequence[float], rng: np.random.Generator) -> Split:
    """Split windows at random as in the paper: class by class, ignoring groups and time. Figures from it carry
    OVERLAPPING_LABEL."""
    return split_client(labels, np.arange(labels.size, dtype=np.int64), None, fractions=fractions, rng=rng)


def is_enough(split: Sequence[IndexArray], *, min_train: int) -> bool:
    """Whether there are min_train samples to train on and no part is empty."""
    return len(split[0]) >= min_train and all(len(part) > 0 for part in split[1:])


def require_samples(
    client: str, split: Sequence[IndexArray], *, remedy: str, min_train: int = MIN_TRAIN_SAMPLES
) -> None:
    """Refuse a client whose parts are not enough, and say what is missing."""
    if is_enough(split, min_train=min_train):
        return
    if len(split[0]) < min_train:
        expected = f"at least {min_train}"
        raise InvalidInput(f"training samples of client {client}", len(split[0]), expected, remedy)
    got = " / ".join(str(len(part)) for part in split)
    raise InvalidInput(f"samples of client {client}", got, "at least one in every part", remedy)


def _stratify(
    labels: IndexArray, groups: IndexArray, fractions: Sequence[float], rng: np.random.Generator
) -> IndexArray:
    """Return (n,): the part of each sample. Shuffled whole groups, largest first, each to the part that needs it most.

    The need of a part for a class is its fraction of the class minus what it has. Giving a group to the part with the
    largest sum over classes of (count in the group) * need / (size of the class) reduces the squared, class-normalised
    errors most; ties are broken by the total number of samples still missing, then by the order of the parts.
    """
    names, unit = np.unique(groups, return_inverse=True)
    values, code = np.unique(labels, return_inverse=True)
    pairs = np.bincount(unit * values.size + code, minlength=names.size * values.size)
    counts = pairs.reshape(names.size, values.size).astype(np.float64)
    share_of_class = counts / counts.sum(axis=0)
    sizes = counts.sum(axis=1)
    need = np.outer(fractions, counts.sum(axis=0))
    missing = need.sum(axis=1)
    order = rng.permutation(names.size)
    order = order[np.argsort(-sizes[order], kind="stable")]
    if (np.count_nonzero(counts, axis=1) == 1).all():
        return _stratify_pure(order, counts, share_of_class, need)[unit]
    part_of = np.zeros(names.size, dtype=np.int64)
    for group in order:
        gain = need @ share_of_class[group]
        part = np.where(gain >= gain.max() - _SAME_NEED, missing, -np.inf).argmax()
        need[part] -= counts[group]
        missing[part] -= sizes[group]
        part_of[group] = part
    return part_of[unit]


def _stratify_pure(order: IndexArray, counts: FloatArray, share_of_class: FloatArray, need: FloatArray) -> IndexArray:
    """Do the same, to the bit, if every group has one class: only the needs of that class matter, which saves an array
    operation for each of thousands of single-sample groups. order: (groups,), largest first."""
    class_of = counts.argmax(axis=1)
    everyone = np.arange(class_of.size)
    sizes, shares = counts[everyone, class_of].tolist(), share_of_class[everyone, class_of].tolist()
    missing, needs, classes = need.sum(axis=1).tolist(), need.T.tolist(), class_of.tolist()
    part_of = np.zeros(class_of.size, dtype=np.int64)
    for group in order.tolist():
        wanted, share = needs[classes[group]], shares[group]
        least = max(wanted) * share - _SAME_NEED
        open_to_it = [lack if one * share >= least else -math.inf for one, lack in zip(wanted, missing, strict=True)]
        part = open_to_it.index(max(open_to_it))
        wanted[part] -= sizes[group]
        missing[part] -= sizes[group]
        part_of[group] = part
    return part_of


def _cut_in_time(groups: IndexArray, spans: IndexArray, fractions: Sequence[float]) -> IndexArray:
    """Return (n,): the part whose stretch of the recording contains the whole window, -1 for a window across a cut."""
    inner: FloatArray = np.cumsum(fractions)[:-1]
    part_of = np.full(groups.size, -1, dtype=np.int64)
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        start, stop = spans[mine, 0], spans[mine, 1]
        cuts = start.min() + np.rint(inner * (stop.max() - start.min())).astype(np.int64)
        first = np.searchsorted(cuts, start, side="right")
        last = np.searchsorted(cuts, stop - 1, side="right")
        part_of[mine] = np.where(first == last, first, -1)
    return part_of


def _collect(part_of: IndexArray, parts: int) -> Split:
    return tuple(np.flatnonzero(part_of == part).astype(np.int64) for part in range(parts))


def _check(labels: IndexArray, groups: IndexArray, spans: IndexArray | None, fractions: Sequence[float]) -> None:
    if labels.ndim != 1 or labels.size == 0 or groups.shape != labels.shape:
        shapes = f"{labels.shape} labels, {groups.shape} groups"
        raise InvalidInput("split", shapes, "one label and one group per sample, at least one sample")
    if spans is not None and (spans.shape != (labels.size, 2) or not (spans[:, 0] < spans[:, 1]).all()):
        raise InvalidInput("spans", f"shape {spans.shape}", f"({labels.size}, 2): [start, stop) with start < stop")
    if len(fractions) < 2 or min(fractions) <= 0 or not math.isclose(sum(fractions), 1.0):
        raise InvalidInput("fractions", fractions, "two or more numbers > 0 that sum to 1")
