"""Differentially private layer statistics: clipped sums over units with Gaussian noise, turned back into moments.

A unit is what the guarantee protects: a patient, a recording or a sample. Every unit contributes one vector, the
channel means and mean squares of all layers, clipped to a given norm. The number of units is public: neighbouring data
sets differ in one unit's values, so a sum changes by at most twice the clip. The participant decides how much noise its
privacy budget requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput

VARIANCE_FLOOR = 1e-3
"""Noise can make a variance negative; a published one is at least this."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLayer:
    """One layer: its channels, and the number of values per channel and sample."""

    name: str
    channels: int
    positions: int


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitMoments:
    """Each unit's contribution. vectors: (units, 2 * channels of all layers): per layer the means, then the mean
    squares, minus a public reference, divided by a public scale; neither depends on the data. samples: public total."""

    layers: tuple[MeasuredLayer, ...]
    vectors: FloatArray
    reference: FloatArray
    scale: FloatArray
    samples: int

    @property
    def norms(self) -> FloatArray:
        """(units,): Euclidean norms before clipping. They describe the data and must not be sent."""
        return np.asarray(np.linalg.norm(self.vectors, axis=1), dtype=np.float64)


def unit_vectors(of_samples: FloatArray, units: IndexArray) -> FloatArray:
    """Average samples by unit: (n, d) and (n,) the unit of each -> (units, d), units in order."""
    if units.shape != (len(of_samples),) or not len(of_samples):
        raise InvalidInput("units", f"shape {units.shape}", f"one unit for each of {len(of_samples)} samples")
    _, position, sizes = np.unique(units, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), of_samples.shape[1]))
    np.add.at(sums, position, of_samples)
    return np.asarray(sums / sizes[:, None], dtype=np.float64)


def sensitivity(clip: float) -> float:
    """The most by which the sum of clipped vectors can change if one unit's values change."""
    return 2.0 * clip


def clipped_sum(vectors: FloatArray, clip: float) -> FloatArray:
    """Sum (units, d) to (d,), with longer vectors scaled down to norm `clip`. InvalidInput for NaN or infinity."""
    if not np.isfinite(vectors).all():
        raise InvalidInput("layer inputs", "NaN or Inf", "finite values: noise cannot protect others")
    norms = np.linalg.norm(vectors, axis=1)
    scale = np.minimum(1.0, clip / np.maximum(norms, np.finfo(np.float64).tiny))
    return np.asarray((vectors * scale[:, None]).sum(axis=0), dtype=np.float64)


def private_statistics(measured: UnitMoments, *, clip: float, noise_multiplier: float, noise: FloatArray) -> BnStats:
    """Return moments that may be sent. noise_multiplier: standard deviation of the noise over the sensitivity; 0 adds
    none, to show the effect of clipping and averaging by units alone. noise: (d,) standard normal, unknown to anybody
    else."""
    units = len(measured.vectors)
    total = clipped_sum(measured.vectors, clip)
    if noise.shape != total.shape:
        raise InvalidInput("noise", f"shape {noise.shape}", f"{total.shape}")
    total += noise_multiplier * sensitivity(clip) * noise
    return moments_of(measured.layers, measured.reference + measured.scale * total / units, samples=measured.samples)


def moments_of(layers: Sequence[MeasuredLayer], vector: FloatArray, *, samples: int) -> BnStats:
    """Turn (d,) means and mean squares back into moments; variances are floored."""
    found, start = [], 0
    for layer in layers:
        middle, end = start + layer.channels, start + 2 * layer.channels
        mean, square = vector[start:middle], vector[middle:end]
        variance = np.maximum(square - np.square(mean), VARIANCE_FLOOR)
        found.append(LayerMoments(name=layer.name, count=samples * layer.positions, mean=mean, variance=variance))
        start = end
    return BnStats(samples=samples, layers=tuple(found))


def noise_in_distance(measured: UnitMoments, *, clip: float, noise_multiplier: float) -> float:
    """Root mean square length of the noise in one member's means and mean squares, over all layers, to compare with
    distances to other members. Depends only on public numbers."""
    return float(noise_multiplier * sensitivity(clip) / len(measured.vectors) * np.linalg.norm(measured.scale))
