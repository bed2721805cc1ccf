"""In which order clients stand wherever W is drawn, in figures and on pages: similar ones side by side.

Decides the order alone and draws nothing, so that one client has one place in every picture of the same W.
"""

from __future__ import annotations

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
    while len(order) < count:
        left = [index for index in range(count) if index not in order]
        order.append(max(left, key=lambda index: float(close[order[-1], index])))
    return order
