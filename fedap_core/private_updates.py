"""Differentially private updates: the step from the delivered model, clipped, with Gaussian noise.

The unit is the silo: whatever data a participant has, its clipped step lies within a ball, so two possible steps are at
most its diameter apart. The step starts from public values: delivered or released before. The participant decides how
much noise its privacy budget requires.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.private_statistics import VARIANCE_FLOOR, sensitivity

_BLOCK = 1 << 20
"""Values processed at a time: noise for a whole model in float64 would take several times its memory."""


def privatise(
    update: Mapping[str, Float32Array],
    base: Mapping[str, Float32Array],
    *,
    clip: float,
    noise_multiplier: float,
    noise: Callable[[str, int], FloatArray],
    variances: Collection[str] = (),
) -> None:
    """Replace an update, in place, by what may be sent: base + clipped step + noise.

    update, base: the same names and shapes; base is public. noise: (name of a block, size) -> (size,) standard normal
    numbers, unknown to anybody else. variances: tensors that are floored, because noise can make them negative.
    """
    length = float(np.sqrt(sum(_squared(values, base[name]) for name, values in update.items())))
    if not np.isfinite(length):
        raise InvalidInput("update", "NaN or Inf", "finite values: noise cannot protect others")
    scale, deviation = min(1.0, clip / max(length, np.finfo(np.float64).tiny)), noise_deviation(clip, noise_multiplier)
    for name, values in update.items():
        flat, start_values = values.reshape(-1), base[name].reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            block, begin = flat[start : start + _BLOCK], start_values[start : start + _BLOCK].astype(np.float64)
            made = begin + scale * (block - begin) + deviation * noise(f"{name} {start}", block.size)
            block[...] = np.maximum(made, VARIANCE_FLOOR) if name in variances else made


def noise_deviation(clip: float, noise_multiplier: float) -> float:
    """Standard deviation of the noise in every value."""
    return noise_multiplier * sensitivity(clip)


def _squared(values: Float32Array, base: Float32Array) -> float:
    total, flat, start_values = 0.0, values.reshape(-1), base.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        step = flat[start : start + _BLOCK].astype(np.float64) - start_values[start : start + _BLOCK]
        total += float(np.square(step, out=step).sum())
    return total
