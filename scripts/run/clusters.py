"""Which clients are alike, where they are too many to be shown one by one.

Decides into how many groups clients are put and how groups are numbered. Only pictures and pages use them; no model
depends on it.
"""

from __future__ import annotations

import warnings

import numpy as np

from fedap_core.arrays import FloatArray

MOST_DRAWN = 200
"""Clients up to which each is shown by itself."""

MOST_CLUSTERS = 24
"""A heat map of so many rows can be read, names included."""


def clusters_of(points: FloatArray) -> list[int]:
    """The cluster of every client, from 0, the largest first; by k-means. points: (n, d), close where clients are."""
    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings():  # equal clients leave clusters empty, and these are dropped below
        warnings.simplefilter("ignore")
        _, found = kmeans2(points, min(MOST_CLUSTERS, len(points)), minit="++", rng=np.random.default_rng(0))
    _, labels, sizes = np.unique(found, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), dtype=np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return [int(number) for number in place[labels]]
