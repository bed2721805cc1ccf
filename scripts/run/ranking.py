"""Ranks algorithms over several data sets: average ranks, and which algorithms the sets cannot tell apart.

Pure: summaries in, numbers out. Every data set counts equally, however many clients and seeds it has. An algorithm that
is missing on a set is left out of the ranking, because ranks among different competitors are not comparable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from fedap_core.arrays import FloatArray
from scripts.run.results import CONFIDENCE, RESAMPLES, Summary

RunsByName = Mapping[str, Sequence[Summary]]
"""One data set: every algorithm's runs, by name."""


@dataclass(frozen=True, kw_only=True)
class RankedAlgorithm:
    """ranks: on every set, 1 is the best, ties share; worst_ranks: the same by the least accurate client."""

    name: str
    ranks: tuple[float, ...]
    worst_ranks: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.ranks)

    @property
    def worst_mean(self) -> float:
        return fmean(self.worst_ranks)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """algorithms: by average rank, the best first; groups: (first, last) places of neighbours that are not told apart;
    left_out: algorithms that are missing on some set."""

    algorithms: tuple[RankedAlgorithm, ...]
    groups: tuple[tuple[int, int], ...]
    left_out: tuple[str, ...]


def rank(sets: Sequence[RunsByName]) -> Ranking:
    """Rank the algorithms over all sets; those missing on some set are left out."""
    everyone = list(dict.fromkeys(name for one in sets for name in one))
    names = [name for name in everyone if all(name in one for one in sets)]
    scores = [_paired(one, names) for one in sets]
    ranks = np.array([ranks_of(values.mean(axis=0)) for values in scores])
    worst = np.array([ranks_of(_worst(one, names)) for one in sets])
    found = [
        RankedAlgorithm(name=name, ranks=tuple(ranks[:, at].tolist()), worst_ranks=tuple(worst[:, at].tolist()))
        for at, name in enumerate(names)
    ]
    order = sorted(range(len(names)), key=lambda at: (found[at].mean, found[at].worst_mean))
    return Ranking(
        algorithms=tuple(found[at] for at in order),
        groups=not_told_apart([values[:, order] for values in scores]),
        left_out=tuple(name for name in everyone if name not in names),
    )


def ranks_of(values: FloatArray) -> FloatArray:
    """Return ranks (n,): 1 for the largest value; equal values share the mean of their ranks."""
    larger = (values[:, None] < values[None, :]).sum(axis=1)
    equal = (values[:, None] == values[None, :]).sum(axis=1)
    return np.asarray(larger + (equal + 1) / 2.0, dtype=np.float64)


def not_told_apart(sets: Sequence[FloatArray]) -> tuple[tuple[int, int], ...]:
    """Return the longest runs (first, last) of columns whose ends differ by no more than chance.

    sets: for each data set (pairs, algorithms), a pair being one client of one seed. The difference of two algorithms
    is the mean over sets of their mean gap; pairs are resampled within each set, so that every set counts alike.
    """
    rng = np.random.default_rng(0)
    means = np.zeros((RESAMPLES, sets[0].shape[1]))
    for values in sets:
        count = len(values)
        means += rng.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES) @ values / (count * len(sets))
    edge = 50.0 * (1.0 - CONFIDENCE)
    columns = means.shape[1]
    ends = []
    for first in range(columns):
        low, high = np.percentile(means[:, [first]] - means[:, first:], [edge, 100.0 - edge], axis=0)
        ends.append(first + int(np.flatnonzero((low <= 0.0) & (high >= 0.0))[-1]))
    return tuple(
        (first, last)
        for first, last in enumerate(ends)
        if last > first and (first == 0 or ends[first - 1] < last)  # not part of a longer run
    )


def _paired(one: RunsByName, names: Sequence[str]) -> FloatArray:
    """(pairs, algorithms): the compared values, over the seeds that all algorithms have and clients measured in all."""
    seeds = sorted(set.intersection(*({run.seed for run in one[name]} for name in names)))
    columns = [
        np.concatenate([next(run for run in one[name] if run.seed == seed).compared for seed in seeds])
        for name in names
    ]
    table = np.stack(columns, axis=1)
    return np.asarray(table[np.isfinite(table).all(axis=1)], dtype=np.float64)


def _worst(one: RunsByName, names: Sequence[str]) -> FloatArray:
    """(algorithms,): accuracy of the least accurate client, mean over seeds."""
    return np.array([fmean(float(np.nanmin(run.compared)) for run in one[name]) for name in names])
