"""Decides what chance may add to a mean difference between algorithms: its 95 % interval, by a bootstrap.

The unit that is resampled is one client of one seed, with the same test samples for both algorithms, so that a client's
difficulty cancels out. Where clients are the same in every seed (hospitals, people), their seeds repeat each other, and
the unit is the client with the mean of its seeds. From few units the bootstrap takes the scatter for too small: its
deviations are widened as Student's t is against the normal distribution. One unit has no scatter, and no interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import FloatArray

RESAMPLES = 10_000
CONFIDENCE = 0.95

EXACT = 1e-12
"""Smaller differences are rounding: the same accuracies, averaged in another order."""


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """One algorithm's accuracy minus another's, paired over (client, seed). low, high: a 95 % bootstrap interval,
    infinite if there is only one unit."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def is_bounded(self) -> bool:
        """Whether there are enough units for an interval."""
        return math.isfinite(self.low)

    @property
    def verdict(self) -> str:
        if self.low > EXACT:
            return "better"
        return "worse" if self.high < -EXACT else "not told apart"


def paired(gaps: FloatArray, *, pairs: int | None = None) -> PairedDifference | None:
    """Return the mean of (units,) differences with its interval; None without units. pairs: of client and seed, if
    units are others."""
    if not gaps.size:
        return None
    mean, pairs = float(gaps.mean()), pairs or gaps.size
    if gaps.size == 1:
        return PairedDifference(mean=mean, low=-math.inf, high=math.inf, pairs=pairs)
    low, high = np.percentile(deviations(gaps[:, None], np.random.default_rng(0)), edges())
    return PairedDifference(mean=mean, low=mean + float(low), high=mean + float(high), pairs=pairs)


def deviations(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return (RESAMPLES, columns): by how much resampled means of (units, columns) differ from the mean, widened for
    few units. Equal values and generators give equal results."""
    count = len(values)
    drawn = rng.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES)
    return np.asarray(_widening(count) * (drawn @ values / count - values.mean(axis=0)), dtype=np.float64)


def edges() -> tuple[float, float]:
    """Return the percentiles between which the interval lies."""
    edge = 50.0 * (1.0 - CONFIDENCE)
    return edge, 100.0 - edge


def _widening(count: int) -> float:
    """1.22 for ten units, 1.03 for sixty. The bootstrap's scatter is that of a sample divided by n, not by n - 1."""
    from scipy.special import ndtri, stdtrit  # takes a quarter of a second to load

    at = 0.5 + CONFIDENCE / 2.0
    return float(math.sqrt(count / (count - 1)) * stdtrit(count - 1, at) / ndtri(at))
