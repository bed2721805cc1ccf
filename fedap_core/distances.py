"""Measure the distance between clients: Wasserstein-2 between the Gaussians of their BN inputs (eq. 4-6).

Decides only the metric; `mixing` turns distances into weights. Distances are kept per layer, so that a report can show
which layer distinguishes two clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput


def diagonal_distances(stats: Sequence[BnStats]) -> FloatArray:
    """W2 per layer with independent channels, the square root of eq. 5. Returns (L, n, n).

    In this case W2 is the Euclidean distance between the vectors (mu, sqrt(r)). Laws: symmetric, zero diagonal,
    triangle inequality; equal statistics have distance exactly 0.
    """
    return _per_layer(stats, full=False)


def full_distances(stats: Sequence[BnStats]) -> FloatArray:
    """W2 per layer with the full covariance matrices, the square root of eq. 4. Returns (L, n, n).

    Same laws as `diagonal_distances`, and equal to it if every covariance is diagonal. Every layer needs its
    covariance. Costs n (n - 1) / 2 decompositions of (C, C) matrices per layer.
    """
    return _per_layer(stats, full=True)


def layer_features(stats: Sequence[BnStats]) -> list[FloatArray]:
    """By layer (n, 2 C): the vectors (mu, sqrt(r)) whose Euclidean distance is W2; `feature_rows` compares them."""
    _require_same_layers(stats)
    return [_features(layers) for layers in zip(*(one.layers for one in stats), strict=True)]


def feature_rows(features: Sequence[FloatArray], places: Sequence[int]) -> FloatArray:
    """Return (r, n): distances from the members at `places` to all, summed over layers, with the bits of
    `diagonal_distances`."""
    found = np.zeros((len(places), len(features[0])))
    for layer in features:
        for row, place in zip(found, places, strict=True):
            row += np.sqrt(np.square(layer - layer[place]).sum(axis=1))
    if not np.isfinite(found).all():
        raise InvalidInput("statistics", "moments too large to compare", "below 1e150")
    return found


def total_distance(per_layer: FloatArray) -> FloatArray:
    """Sum over the layers: d_ij of eq. 6. (L, n, n) -> (n, n)."""
    if per_layer.ndim != 3 or per_layer.shape[1] != per_layer.shape[2]:
        raise InvalidInput("distances", f"shape {per_layer.shape}", "(layers, clients, clients)")
    return np.asarray(per_layer.sum(axis=0), dtype=np.float64)


def _per_layer(stats: Sequence[BnStats], *, full: bool) -> FloatArray:
    _require_same_layers(stats)
    clients = len(stats)
    distances = np.zeros((len(stats[0].layers), clients, clients))
    for number, layers in enumerate(zip(*(one.layers for one in stats), strict=True)):
        with np.errstate(over="ignore", invalid="ignore"):  # reported by name below
            squares = _full_squares(layers) if full else _diagonal_squares(layers)
        if not np.isfinite(squares).all():
            raise InvalidInput(f"statistics of layer {layers[0].name!r}", "moments too large to compare", "below 1e150")
        distances[number] = np.sqrt(squares + squares.T)
    return distances


def _diagonal_squares(layers: Sequence[LayerMoments]) -> FloatArray:
    """Eq. 5 for all pairs i < j: (n, n), zero elsewhere.

    One row against all later rows at a time, from differences: a Gram matrix would lose digits between close clients.
    Needs memory for one (n, 2 C) block.
    """
    features = _features(layers)
    squares = np.zeros((len(layers), len(layers)))
    for i, row in enumerate(features):
        squares[i, i + 1 :] = np.square(features[i + 1 :] - row).sum(axis=1)
    return squares


def _features(layers: Sequence[LayerMoments]) -> FloatArray:
    return np.stack([np.concatenate((layer.mean, np.sqrt(layer.variance))) for layer in layers])


def _full_squares(layers: Sequence[LayerMoments]) -> FloatArray:
    """Eq. 4 for all pairs i < j: (n, n), zero elsewhere.

    The trace term is evaluated as min over orthogonal Q of |A - B Q|_F^2 with A, B the symmetric square roots; its
    minimiser is the polar factor of B A. A sum of squares cannot be negative, and unlike the form in the paper it is
    not a small difference of large traces.
    """
    means = np.stack([layer.mean for layer in layers])
    covariances = np.stack([_covariance(layer) for layer in layers])
    roots = _symmetric_roots(covariances)
    squares = np.zeros((len(layers), len(layers)))
    for i in range(len(layers) - 1):
        later = slice(i + 1, None)
        u, _, vt = np.linalg.svd(roots[later] @ roots[i])
        spread = np.square(roots[i] - roots[later] @ (u @ vt)).sum(axis=(1, 2))
        spread[(covariances[later] == covariances[i]).all(axis=(1, 2))] = 0.0  # rounding must not separate twins
        squares[i, later] = np.square(means[later] - means[i]).sum(axis=1) + spread
    return squares


def _symmetric_roots(covariances: FloatArray) -> FloatArray:
    """Return the symmetric square root of each of (n, C, C) covariances; eigenvalues rounded below 0 count as 0."""
    values, vectors = np.linalg.eigh(covariances)
    scaled = vectors * np.sqrt(np.clip(values, 0.0, None))[:, None, :]
    return np.asarray(scaled @ vectors.swapaxes(1, 2), dtype=np.float64)


def _covariance(layer: LayerMoments) -> FloatArray:
    if layer.covariance is None:
        raise InvalidInput(
            f"statistics of layer {layer.name!r}", "variances only", "a full covariance", "Measure with covariance."
        )
    return layer.covariance


def _require_same_layers(stats: Sequence[BnStats]) -> None:
    if not stats:
        raise InvalidInput("statistics", "no clients", "at least one client")
    first = stats[0]
    for number, other in enumerate(stats[1:], start=1):
        if other.layer_names != first.layer_names:
            expected = f"the layers of client 0: {', '.join(first.layer_names)}"
            raise InvalidInput(f"statistics of client {number}", ", ".join(other.layer_names), expected)
        for mine, theirs in zip(first.layers, other.layers, strict=True):
            if mine.channels != theirs.channels:
                field = f"statistics of client {number}, layer {theirs.name!r}"
                raise InvalidInput(field, f"{theirs.channels} channels", f"{mine.channels} as client 0 has")
