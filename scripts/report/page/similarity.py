"""In which order clients stand in the heat map: those that take from each other stand together.

Groups are joined from the closest pair on (average linkage); where two groups meet, each is turned so that the closest
ends touch. Equal input gives equal order.
"""

from __future__ import annotations

import numpy as np

from fedap_core.arrays import FloatArray


def by_similarity(weights: FloatArray) -> list[int]:
    """weights: (n, n). Returns the clients' indices, similar ones side by side."""
    close = (weights + weights.T) / 2
    linkage = close.copy()  # mean closeness of two groups, kept at the places of their first members
    np.fill_diagonal(linkage, -np.inf)
    groups = {index: [index] for index in range(len(weights))}
    while len(groups) > 1:
        first, second = sorted(int(at) for at in np.unravel_index(int(linkage.argmax()), linkage.shape))
        sizes = len(groups[first]), len(groups[second])
        linkage[first] = np.average(linkage[[first, second]], axis=0, weights=sizes)
        linkage[:, first] = linkage[first]
        linkage[first, first] = linkage[second] = linkage[:, second] = -np.inf
        groups[first] = _joined(groups[first], groups.pop(second), close)
    return next(iter(groups.values()), [])


def _joined(one: list[int], two: list[int], close: FloatArray) -> list[int]:
    ways = [(left, right) for left in (one, one[::-1]) for right in (two, two[::-1])]
    left, right = max(ways, key=lambda way: float(close[way[0][-1], way[1][0]]))
    return left + right
