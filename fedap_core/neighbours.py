"""Store W of many members as the heaviest entries of its rows: the whole matrix is never in memory.

Decides which entries are stored, and computes from them, bit for bit, what `mixing.keep_nearest` returns for the whole
row. Rows are computed block by block from the members' statistics. Callers pass the members with a usable update in
each round; a row with too few of them among its stored entries is recomputed from the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedap_core import distances, mixing
from fedap_core.arrays import BoolArray, FloatArray, IndexArray
from fedap_core.bn_stats import BnStats
from fedap_core.similarity import row_similarity, spreads

REMEMBERED = 16
"""Entries stored per neighbour of a row: enough once a tenth of the members have taken part."""

_BLOCK = 64
"""Rows computed at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestMembers:
    """features: by layer (n, 2 C), see `distances.layer_features`. places, weights: (n, e) the heaviest entries of each
    row of W except its own, heaviest first, ties in member order. others: (n,) the total weight of all other members in
    a row. givers: (n,) how many of them have any. similarity: (n,) to the most similar member.
    """

    features: tuple[FloatArray, ...]
    self_weight: float
    places: NDArray[np.int32]
    weights: FloatArray
    others: FloatArray
    givers: IndexArray
    similarity: FloatArray

    @classmethod
    def of(cls, stats: Sequence[BnStats], *, self_weight: float, neighbours: int) -> NearestMembers:
        """Compute it from all members' statistics; n > 1."""
        features, members, within = distances.layer_features(stats), len(stats), spreads(stats)
        kept = min(REMEMBERED * neighbours, members - 1)
        found = cls(
            features=tuple(features),
            self_weight=self_weight,
            places=np.empty((members, kept), dtype=np.int32),
            weights=np.empty((members, kept)),
            others=np.empty(members),
            givers=np.empty(members, dtype=np.int64),
            similarity=np.empty(members),
        )
        for start in range(0, members, _BLOCK):
            block = range(start, min(start + _BLOCK, members))
            far = distances.feature_rows(features, block)
            found.similarity[block] = row_similarity(far, block, within)
            for place, row in zip(block, mixing.mixing_rows(far, block, self_weight=self_weight), strict=True):
                found._remember(place, row, kept)
        return found

    def _remember(self, place: int, row: FloatArray, kept: int) -> None:
        self.others[place] = row.sum() - row[place]
        row[place] = -1.0  # sorts last
        self.givers[place] = np.count_nonzero(row > 0.0)
        least = np.partition(row, len(row) - kept)[len(row) - kept]
        heavy = np.flatnonzero(row >= least)
        self.places[place] = heavy[np.argsort(-row[heavy], kind="stable")[:kept]]
        self.weights[place] = row[self.places[place]]

    def __len__(self) -> int:
        return len(self.others)

    def shares(self, neighbours: int) -> FloatArray:
        """Return (n, neighbours): the weights of every row's heaviest members if all updates are usable."""
        nearest = self.weights[:, :neighbours]
        return np.asarray(nearest / nearest.sum(axis=1, keepdims=True) * self.others[:, None])

    def rows(self, receivers: Sequence[int], *, usable: BoolArray, neighbours: int) -> FloatArray:
        """Return (r, n): what `mixing.keep_nearest` returns for these rows of W. neighbours: at most those of `of`."""
        found = np.zeros((len(receivers), len(self)))
        for row, place in zip(found, receivers, strict=True):
            places, weights = self.places[place], self.weights[place]
            there = usable[places] & (weights > 0.0)
            if self.givers[place] <= neighbours:
                row[places] = weights
            elif there.sum() >= min(neighbours, self.givers[place]) or self.givers[place] <= len(places):
                nearest = np.flatnonzero(there)[:neighbours]
                if not nearest.size:
                    row[places] = weights
                else:
                    row[places[nearest]] = weights[nearest] / weights[nearest].sum() * self.others[place]
            else:
                row[:] = self._made_anew(place, usable, neighbours)
            row[place] = self.self_weight
        return found

    def _made_anew(self, place: int, usable: BoolArray, neighbours: int) -> FloatArray:
        row = mixing.mixing_rows(distances.feature_rows(self.features, [place]), [place], self_weight=self.self_weight)
        kept: FloatArray = mixing.keep_nearest(row, [place], usable=usable, neighbours=neighbours)[0]
        return kept
