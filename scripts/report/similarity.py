"""In which order clients stand wherever W is drawn, in figures and on pages: similar ones side by side.

Decides the order, and the names of clusters where clients are many, and draws nothing, so that one client has one place
in every picture of the same W.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import FloatArray


def by_similarity(weights: FloatArray) -> list[int]:
    """weights: (n, n). Returns the clients' indices: from the closest pair on, always the nearest one left."""
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
    """`#1 (412)` is the first of them, of 412 clients."""
    return [f"#{number + 1} ({size})" for number, size in sorted(Counter(clusters).items())]
