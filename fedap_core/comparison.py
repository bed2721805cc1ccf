"""Derive weights from the updates themselves: pairwise products of chosen tensors, turned into affinities by a
strategy.

The affinity multiplies the weights decided before (who reported, how old, who is doubted), row by row. It depends only
on the updates, which are durable, so that a product recomputed after a crash has the same bits. Independent of names
and algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedap_core.aggregation import TileAccess, one_blas_thread, tile_columns
from fedap_core.arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class UpdateComparison:
    """What is compared, and how it changes weights. chosen: for each tensor, in order, whether it is compared.

    affinity: products (m, m) of the m updates' chosen values -> (m, m) >= 0, row i: how much i takes from each.
    keeps_own: whether a row's own weight is fixed and the affinity changes only the others.
    """

    chosen: tuple[bool, ...]
    affinity: Callable[[FloatArray], FloatArray]
    keeps_own: bool


def compared_weights(
    comparison: UpdateComparison,
    weights: FloatArray,
    own: Sequence[int | None],
    *,
    sizes: Sequence[int],
    read: TileAccess,
) -> FloatArray:
    """Return (r, m): the weights, multiplied by the affinity and normalised to a sum of 1.

    own: for each receiver the position of its own update among the m; a receiver without one keeps its row. If no giver
    has any weight left, the receiver keeps its own update.
    """
    affinity = comparison.affinity(pairwise_products(sizes, comparison.chosen, weights.shape[1], read))
    found = weights.copy()
    for row, mine in zip(found, own, strict=True):
        if mine is None:
            continue
        kept = float(row[mine]) if comparison.keeps_own else 0.0
        factors = affinity[mine].copy()
        if comparison.keeps_own:
            factors[mine] = 0.0
        row *= factors
        total = float(row.sum())
        if total > 0.0:
            row *= (1.0 - kept) / total
            row[mine] += kept
        else:
            row[:] = np.arange(len(row)) == mine
    return found


def pairwise_products(sizes: Sequence[int], chosen: Sequence[bool], givers: int, read: TileAccess) -> FloatArray:
    """Return (m, m): the scalar product of every two updates over the chosen tensors, in float64."""
    found = np.zeros((givers, givers))
    parameters, columns = sum(sizes), tile_columns(givers)
    ends = np.cumsum(np.asarray([0, *sizes]))
    with one_blas_thread():
        for start in range(0, parameters, columns):
            tile = np.empty((givers, min(columns, parameters - start)), dtype=np.float32)
            read(start, tile)  # even if nothing is chosen: reading also verifies the stored bytes
            values = tile.astype(np.float64)
            for first, last, wanted in zip(ends - start, ends[1:] - start, chosen, strict=False):
                piece = values[:, max(first, 0) : max(last, 0)]
                if wanted and piece.size:
                    found += piece @ piece.T
    return found


def squared_distances_of(products: FloatArray) -> FloatArray:
    """Return (m, m): squared distances between the compared updates."""
    lengths = products.diagonal()
    return np.asarray(np.maximum(lengths[:, None] + lengths[None, :] - 2.0 * products, 0.0))


def cosines_of(products: FloatArray) -> FloatArray:
    """Return (m, m): cosines of the angles between the compared updates, 0 if one of them is zero."""
    lengths = np.sqrt(products.diagonal())
    both = np.outer(lengths, lengths)
    return np.asarray(np.divide(products, both, out=np.zeros_like(products), where=both > 0.0))
