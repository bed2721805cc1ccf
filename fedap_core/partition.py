"""Divide the samples of a data set among clients; `splits` divides a client's share further.

Computes index lists from labels and groups only, not from samples. Laws: clients are disjoint and together complete;
a group (patient, recording) is never divided; indices are sorted; equal generators give equal partitions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedap_core.arrays import BoolArray, FloatArray, IndexArray
from fedap_core.errors import InvalidInput

Partition: TypeAlias = tuple[IndexArray, ...]
"""One sorted index array per client."""

_ATTEMPTS = 2_000
"""Draws before giving up. Even a pair that shares a single class at alpha = 0.01 succeeds about once in 100."""

_REMEDY = "Use fewer clients, a larger alpha, or another partition (by site, iid)."


def dirichlet_pairs(
    labels: IndexArray, groups: IndexArray, *, clients: int, alpha: float, rng: np.random.Generator
) -> Partition:
    """Label shift between clients of about equal size: the data is cut into parts, each divided between two clients.

    labels, groups: (n,). The groups are shuffled and cut into ceil(clients / 2) equal parts; with an odd number of
    clients the last part has half the size and one owner. Inside a part, class by class, the two clients share the
    groups by Dirichlet(alpha); one that already has its equal share gets nothing of later classes. Redrawn until the
    smaller has at least half of an equal share. A group counts as its most frequent label.
    """
    _check_alpha(alpha)
    units = _Units.of(labels, groups, clients=clients)
    owner = np.zeros(units.size.size, dtype=np.int64)
    seats = [min(2, clients - first) for first in range(0, clients, 2)]
    order = rng.permutation(units.size.size)
    part_of = _apportion(units.size[order], np.array(seats) / clients)
    for number, seated in enumerate(seats):
        part = order[part_of == number]
        side = _divide_pair(units, part, alpha, rng) if seated == 2 else 0
        owner[part] = 2 * number + side
    return _shares(owner[units.of_sample], clients)


def dirichlet(
    labels: IndexArray,
    groups: IndexArray,
    *,
    clients: int,
    alpha: float,
    rng: np.random.Generator,
    min_samples: int = 1,
    has_enough: Callable[[int, IndexArray], bool] = lambda _client, _samples: True,
) -> Partition:
    """Label shift and size shift: each class is divided among all clients by one draw of Dirichlet(alpha).

    labels, groups: (n,). Redrawn until every client has min_samples and has_enough, called with its number and its
    samples, the smallest client first, agrees. A group counts as its most frequent label.
    """
    _check_alpha(alpha)
    if min_samples < 1:
        raise InvalidInput("min_samples", min_samples, "at least one")
    units = _Units.of(labels, groups, clients=clients)
    concentration = np.full(clients, alpha)
    for _ in range(_ATTEMPTS):
        owner = np.zeros(units.size.size, dtype=np.int64)
        for label in np.unique(units.label):
            chosen = rng.permutation(np.flatnonzero(units.label == label))
            owner[chosen] = _apportion(units.size[chosen], rng.dirichlet(concentration))
        sizes = np.bincount(owner, weights=units.size, minlength=clients)
        if sizes.min() < min_samples:
            continue
        shares = _shares(owner[units.of_sample], clients)
        if all(has_enough(int(client), shares[client]) for client in np.argsort(sizes, kind="stable")):
            return shares
    smallest, expected = int(sizes.min()), f"at least {min_samples} samples for every client, and enough to train on"
    got = f"{clients} clients with alpha {alpha}, the smallest of the last of {_ATTEMPTS} draws has {smallest}"
    raise InvalidInput("partition", got, expected, _REMEDY)


def by_site(site: IndexArray) -> tuple[tuple[int, IndexArray], ...]:
    """Make one client per value of `site`: (n,) -> (value, its samples), values ascending."""
    if site.ndim != 1 or site.size == 0:
        raise InvalidInput("site", f"shape {site.shape}", "one site per sample, at least one sample")
    return tuple((int(value), _indices(site == value)) for value in np.unique(site))


def iid(groups: IndexArray, *, clients: int, rng: np.random.Generator) -> Partition:
    """No shift: shuffled groups, largest first, each to the client with the fewest samples so far. groups: (n,)."""
    units = _Units.of(groups, groups, clients=clients)
    order = rng.permutation(units.size.size)
    order = order[np.argsort(-units.size[order], kind="stable")]
    owner = np.zeros(units.size.size, dtype=np.int64)
    held = [(0, client) for client in range(clients)]
    for unit in order:
        size, client = held[0]
        owner[unit] = client
        heapq.heapreplace(held, (size + int(units.size[unit]), client))
    return _shares(owner[units.of_sample], clients)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Units:
    """The groups as indivisible units. size, label: (units,); of_sample: (n,), the unit of each sample."""

    size: IndexArray
    label: IndexArray
    of_sample: IndexArray

    @classmethod
    def of(cls, labels: IndexArray, groups: IndexArray, *, clients: int) -> _Units:
        """Return the groups; InvalidInput unless there is at least one for every client."""
        if labels.ndim != 1 or labels.size == 0 or groups.shape != labels.shape:
            shapes = f"{labels.shape} labels, {groups.shape} groups"
            raise InvalidInput("partition", shapes, "one label and one group per sample, at least one sample")
        names, of_sample = np.unique(groups, return_inverse=True)
        if not 1 <= clients <= names.size:
            raise InvalidInput(
                "clients", clients, f"1 to {names.size}, the number of groups: none is ever divided", _REMEDY
            )
        values, code = np.unique(labels, return_inverse=True)
        # Pairs (unit, label) ordered by count: the last one written per unit is its majority label; of equally
        # frequent labels the smallest wins, because it comes last.
        pairs, count = np.unique(of_sample * values.size + code, return_counts=True)
        pairs = pairs[np.lexsort((-pairs, count))]
        label = np.zeros(names.size, dtype=np.int64)
        label[pairs // values.size] = values[pairs % values.size]
        return cls(size=np.bincount(of_sample).astype(np.int64), label=label, of_sample=of_sample.astype(np.int64))


def _divide_pair(units: _Units, part: IndexArray, alpha: float, rng: np.random.Generator) -> IndexArray:
    """(len(part),) of 0 and 1: which of two clients gets each unit of the part."""
    size, label = units.size[part], units.label[part]
    classes = [np.flatnonzero(label == value) for value in np.unique(label)]
    equal_share = size.sum() / 2
    for _ in range(_ATTEMPTS):
        side = np.zeros(part.size, dtype=np.int64)
        have = np.zeros(2)
        for chosen in classes:
            # at least one of the two is below its share: otherwise nothing of the part would be left
            still_open = (have < equal_share).astype(np.float64)
            wanted = rng.dirichlet((alpha, alpha)) * still_open
            proportions = wanted if wanted.sum() > 0 else still_open  # a tiny alpha draws exact zeros
            side[chosen] = _apportion(size[chosen], proportions / proportions.sum())
            have += np.bincount(side[chosen], weights=size[chosen], minlength=2)
        if have.min() >= equal_share / 2:
            return side
    got = f"alpha {alpha}, in {_ATTEMPTS} draws no pair of clients was balanced"
    expected = f"two clients with at least {equal_share / 2:g} samples each"
    raise InvalidInput("partition", got, expected, _REMEDY)


def _apportion(size: IndexArray, proportions: FloatArray) -> IndexArray:
    """Cut a row of units at the proportions of its total size: (units,) -> the part of each unit, ascending.

    A unit that a cut would divide belongs to the part that holds its middle.
    """
    edges = np.cumsum(proportions)[:-1] * size.sum()
    return np.searchsorted(edges, np.cumsum(size) - size / 2, side="right").astype(np.int64)


def _shares(owner: IndexArray, clients: int) -> Partition:
    """Return the samples of each client; InvalidInput if one has none, because of large groups."""
    held = np.bincount(owner, minlength=clients)
    if held.min() == 0:
        got = f"no samples for client {int(held.argmin())} of {clients}"
        raise InvalidInput("partition", got, "at least one for every client", _REMEDY)
    return tuple(_indices(owner == client) for client in range(clients))


def _indices(chosen: BoolArray) -> IndexArray:
    return np.flatnonzero(chosen).astype(np.int64)


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < math.inf:
        raise InvalidInput("alpha", alpha, "a finite number > 0")
