"""Groups similar clients when there are too many to show one by one.

Decides how many groups there are and how they are numbered. Only figures and pages use the groups; no model depends
on them.
"""

from __future__ import annotations

import warnings

import numpy as np

from fedap_core.arrays import FloatArray

MOST_DRAWN = 200
"""Up to this many clients, each is shown by itself."""

MOST_CLUSTERS = 24
"""A heat map with this many rows is still readable, names included."""


def clusters_of(points: FloatArray) -> list[int]:
    """Return each client's cluster by k-means, numbered from 0, largest first. points: (n, d), close if alike."""
    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings():  # equal clients leave clusters empty; empty clusters are dropped below
        warnings.simplefilter("ignore")
        _, found = kmeans2(points, min(MOST_CLUSTERS, len(points)), minit="++", rng=np.random.default_rng(0))
    _, labels, sizes = np.unique(found, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), dtype=np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return [int(number) for number in place[labels]]
