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
from scripts.run.chance import EXACT, deviations, edges
from scripts.run.results import Summary, known_means

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

    sets: for each data set (units, algorithms), units being those of `chance`. The difference of two algorithms is the
    mean over sets of their mean gap; units are resampled within each set, so that every set counts alike.
    """
    columns = sets[0].shape[1]
    if any(len(values) == 1 for values in sets):
        return ((0, columns - 1),) if columns > 1 else ()
    rng = np.random.default_rng(0)
    means = sum(values.mean(axis=0) + deviations(values, rng) for values in sets) / len(sets)
    ends = []
    for first in range(columns):
        low, high = np.percentile(means[:, [first]] - means[:, first:], edges(), axis=0)
        ends.append(first + int(np.flatnonzero((low <= EXACT) & (high >= -EXACT))[-1]))
    return tuple(
        (first, last)
        for first, last in enumerate(ends)
        if last > max([first, *ends[:first]])  # not part of a longer run
    )


def _paired(one: RunsByName, names: Sequence[str]) -> FloatArray:
    """(units, algorithms): the compared values, over the seeds that all algorithms have and clients measured in all."""
    seeds = sorted(set.intersection(*({run.seed for run in one[name]} for name in names)))
    chosen = [[next(run for run in one[name] if run.seed == seed) for seed in seeds] for name in names]
    table = np.array([[run.compared for run in runs] for runs in chosen])  # (algorithms, seeds, clients)
    table[:, ~np.isfinite(table).all(axis=0)] = np.nan
    same = all(run.same_clients for runs in chosen for run in runs)
    units = np.array([known_means(rows) if same else rows[np.isfinite(rows)] for rows in table])
    return np.asarray(units.T, dtype=np.float64)


def _worst(one: RunsByName, names: Sequence[str]) -> FloatArray:
    """(algorithms,): accuracy of the least accurate client, mean over seeds."""
    return np.array([fmean(float(np.nanmin(run.compared)) for run in one[name]) for name in names])
