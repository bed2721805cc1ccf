"""Decides the order of clients wherever W is drawn, in figures and on pages: similar ones side by side.

It also names clusters if there are many clients. It draws nothing, so that a client has the same place in every picture
of the same W.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import FloatArray


def by_similarity(weights: FloatArray) -> list[int]:
    """Order clients by weights (n, n): start with the closest pair, then always append the nearest remaining client."""
    count = len(weights)
    if count < 3:
        return list(range(count))
    close = weights + weights.T
    np.fill_diagonal(close, -1.0)
    first, second = np.unravel_index(int(close.argmax()), close.shape)
    order = [int(first), int(second)]
    left = np.ones(count, dtype=np.bool_)
    left[order] = False
    while len(order) < count:
        order.append(int(np.where(left, close[order[-1]], -np.inf).argmax()))
        left[order[-1]] = False
    return order


def cluster_names(clusters: Sequence[int]) -> list[str]:
    """Name the clusters: `#1 (412)` is the first one, with 412 clients."""
    return [f"#{number + 1} ({size})" for number, size in sorted(Counter(clusters).items())]
