"""Mixes as in a sealed run, for engines without a network: values and weights are rounded to whole numbers.

Pads and check values are left out: a member subtracts its pads exactly, so a run without a network has the same bits as
one with it. Rows are those that members would request with everybody present.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.sealing import fixed_point, rows
from fedap_core.sealing.fixed_point import Words
from fedap_core.sealing.word_mixing import mix_words
from fedap_core.strategies import Phase, Strategy
from protocol.plan import MAX_PEER_WEIGHT


def mix_as_sealed(
    weights: FloatArray, names: Sequence[str], strategy: Strategy, phase: Phase, updates: Sequence[Float32Array]
) -> None:
    """Replace every update by its mix. weights: (n, n), the strategy's. updates: n arrays (P,) of float32."""
    rule = rows.RowRule.of(strategy, phase, max_peer_weight=MAX_PEER_WEIGHT)
    everybody = dict.fromkeys(names, 1.0)
    granted = []
    for name, row in zip(names, weights, strict=True):
        asked = rows.request(dict(zip(names, map(float, row), strict=True)), name, rule)
        granted.append(rows.granted(asked, name, everybody, rule, members=len(names)))
    table = np.asarray([[row.get(name, 0) for name in names] for row in granted], dtype=np.int64)
    words = [fixed_point.to_words(update) for update in updates]

    def read(start: int, tile: Words) -> None:
        for row, update in zip(tile, words, strict=True):
            row[:] = update[start : start + tile.shape[1]]

    def write(start: int, mixed: Words) -> None:
        for update, row in zip(updates, mixed, strict=True):
            update[start : start + row.size] = fixed_point.to_values(fixed_point.signed(row))

    mix_words(table, updates[0].size, read=read, write=write)
