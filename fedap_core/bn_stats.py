"""The statistics that a client sends: the first two moments of the inputs of its BN layers (eq. 3 of the paper).

Decides what a valid set of moments is and how to merge two sets without loss. Independent of models and batches:
callers pass activations as (channels, values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput

_AT_ONCE = 1 << 15
"""Values of whole channels whose moments are computed together: 256 KiB in float64, so that they stay in the cache."""

_SYMMETRY_TOLERANCE = 1e-6
"""How far a covariance may differ from its transpose and from the variances, relative to its largest entry: another
program may have summed it in float32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerMoments:
    """Population moments of one layer's inputs z, a (C, s) matrix: N(mu, sigma) in the paper.

    count: s, the values per channel. mean, variance: (C,). covariance: (C, C), or None if channels are treated as
    independent. The arrays are private read-only float64 copies. Law: `of(whole)` is the merge of `of(part)`.
    """

    name: str
    count: int
    mean: FloatArray
    variance: FloatArray
    covariance: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise InvalidInput(self._field("count"), self.count, "at least one value per channel")
        object.__setattr__(self, "mean", self._own("mean", self.mean, ndim=1))
        object.__setattr__(self, "variance", self._own("variance", self.variance, ndim=1))
        if self.variance.shape != self.mean.shape or self.mean.size == 0:
            shapes = f"mean {self.mean.shape}, variance {self.variance.shape}"
            raise InvalidInput(self._field("variance"), shapes, "one mean and one variance per channel, one or more")
        if self.variance.min() < 0:
            raise InvalidInput(self._field("variance"), float(self.variance.min()), "numbers >= 0")
        if self.covariance is not None:
            object.__setattr__(self, "covariance", self._checked_covariance(self.covariance))

    @classmethod
    def of(cls, name: str, values: ArrayLike, *, with_covariance: bool = False) -> LayerMoments:
        """Compute the exact moments of `values`: (C, s), summed in float64. A constant channel has variance 0."""
        z = np.asarray(values)
        if z.ndim != 2 or z.size == 0:
            raise InvalidInput(
                f"statistics of layer {name!r}", f"shape {z.shape}", "(channels, values), none of them 0"
            )
        at_once = len(z) if with_covariance else max(_AT_ONCE // z.shape[1], 1)
        parts = [_moments(name, z[start : start + at_once], with_covariance) for start in range(0, len(z), at_once)]
        mean, variance = (np.concatenate(found) for found in zip(*(part[:2] for part in parts), strict=True))
        return cls(name=name, count=z.shape[1], mean=mean, variance=variance, covariance=parts[0][2])

    @property
    def channels(self) -> int:
        return int(self.mean.size)

    def merge(self, other: LayerMoments) -> LayerMoments:
        """Return the moments of both sets together: the exact pairwise update of Chan, Golub and LeVeque."""
        mine, others = self._signature, other._signature
        if mine != others:
            raise InvalidInput(self._field("merge"), others, f"the same name, channels and covariance: {mine}")
        count = self.count + other.count
        a, b = self.count / count, other.count / count
        covariance: FloatArray | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.mean - self.mean
            mean = self.mean + b * delta
            variance = a * self.variance + b * other.variance + (a * b) * np.square(delta)
            if self.covariance is not None and other.covariance is not None:
                covariance = a * self.covariance + b * other.covariance + (a * b) * np.outer(delta, delta)
        return LayerMoments(name=self.name, count=count, mean=mean, variance=variance, covariance=covariance)

    @property
    def _signature(self) -> tuple[str, int, bool]:
        return self.name, self.channels, self.covariance is not None

    def _field(self, part: str) -> str:
        return f"statistics of layer {self.name!r}, {part}"

    def _own(self, part: str, values: FloatArray, *, ndim: int) -> FloatArray:
        array = np.array(values, dtype=np.float64, order="C")
        if array.ndim != ndim:
            raise InvalidInput(self._field(part), f"shape {array.shape}", f"an array of {ndim} dimension(s)")
        if not np.isfinite(array).all():
            raise InvalidInput(self._field(part), "NaN or Inf", "finite numbers")
        array.setflags(write=False)
        return array

    def _checked_covariance(self, covariance: FloatArray) -> FloatArray:
        array = self._own("covariance", covariance, ndim=2)
        field = self._field("covariance")
        if array.shape != (self.channels, self.channels):
            raise InvalidInput(field, f"shape {array.shape}", f"({self.channels}, {self.channels})")
        tolerance = _SYMMETRY_TOLERANCE * float(np.abs(array).max())
        if np.abs(array - array.T).max() > tolerance:
            raise InvalidInput(field, "an asymmetric matrix", "a symmetric one")
        if np.abs(array.diagonal() - self.variance).max() > tolerance:
            raise InvalidInput(field, "a diagonal other than the variances", "the variances on the diagonal")
        return array


def _moments(
    name: str, values: NDArray[Any], with_covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return mean, variance and perhaps covariance of these channels; every channel is summed by itself."""
    z = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the constructor of LayerMoments refuses overflows by name
        mean = z.mean(axis=1)
        if not np.isfinite(mean).all() and not np.isfinite(z).all():
            raise InvalidInput(f"statistics of layer {name!r}", "NaN or Inf among the layer's inputs", "finite inputs")
        centred = z - mean[:, None]
        mean += centred.mean(axis=1)  # corrects the rounding of the first pass
        np.subtract(z, mean[:, None], out=centred)
        covariance = centred @ centred.T / z.shape[1] if with_covariance else None
        variance = np.square(centred, out=centred).mean(axis=1) if covariance is None else covariance.diagonal()
    return mean, variance, covariance


@dataclass(frozen=True, kw_only=True, eq=False)
class BnStats:
    """All layers of one client, in model order: (mu_i, sigma_i) of eq. 3. samples: number of model inputs."""

    samples: int
    layers: tuple[LayerMoments, ...]

    def __post_init__(self) -> None:
        if self.samples <= 0:
            raise InvalidInput("statistics.samples", self.samples, "at least one sample")
        if not self.layers:
            raise InvalidInput("statistics.layers", "none", "at least one layer", "The model has no layer to measure.")
        if len(set(self.layer_names)) != len(self.layers):
            raise InvalidInput("statistics.layers", ", ".join(self.layer_names), "every layer name once")

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(layer.name for layer in self.layers)

    def merge(self, other: BnStats) -> BnStats:
        """Return the statistics of both sets of samples together, layer by layer."""
        if self.layer_names != other.layer_names:
            expected = f"the layers {', '.join(self.layer_names)}"
            raise InvalidInput("statistics.layers", ", ".join(other.layer_names), expected)
        layers = tuple(mine.merge(theirs) for mine, theirs in zip(self.layers, other.layers, strict=True))
        return BnStats(samples=self.samples + other.samples, layers=layers)
