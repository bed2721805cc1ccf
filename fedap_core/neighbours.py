"""W of many members by the heaviest entries of its rows: the whole matrix is never in memory.

Decides which entries are remembered, and from them, bit for bit, what `mixing.keep_nearest` makes of the whole row.
Rows are made block by block from the members' statistics; who has an update to give is told from round to round, and a
row that finds too few of those among its remembered entries is made anew from the statistics.
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
"""Entries remembered per neighbour that a row takes from: enough once a tenth of the members have taken part."""

_BLOCK = 64
"""Rows made at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestMembers:
    """features: by layer (n, 2 C), see `distances.layer_features`. places, weights: (n, e) the heaviest entries of each
    row of W beside its own, heaviest first, of equals the first member first. others: (n,) what all members but itself
    have in a row; givers: (n,) how many of them have anything. similarity: (n,) to the member most like it.
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
        """From everybody's statistics; n > 1."""
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
        row[place] = -1.0  # behind everybody
        self.givers[place] = np.count_nonzero(row > 0.0)
        least = np.partition(row, len(row) - kept)[len(row) - kept]
        heavy = np.flatnonzero(row >= least)
        self.places[place] = heavy[np.argsort(-row[heavy], kind="stable")[:kept]]
        self.weights[place] = row[self.places[place]]

    def __len__(self) -> int:
        return len(self.others)

    def shares(self, neighbours: int) -> FloatArray:
        """(n, neighbours): the weights of every row's first members where everybody's update can be used."""
        nearest = self.weights[:, :neighbours]
        return np.asarray(nearest / nearest.sum(axis=1, keepdims=True) * self.others[:, None])

    def rows(self, receivers: Sequence[int], *, usable: BoolArray, neighbours: int) -> FloatArray:
        """(r, n): what `mixing.keep_nearest` gives for these rows of W. neighbours: at most as many as at the start."""
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
