"""Weights as integers modulo 2^64, and back: the numbers that a pad can hide and a coordinator can still add.

Decides scale and range. |x| < 2^16 becomes q = round(x * 2^24), |q| <= 2^40; integer weights sum to 2^20, so that a sum
of any of these stays within 2^60 and never wraps. Knows neither pads nor members.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput

Words = NDArray[np.uint64]
"""Integers modulo 2^64."""

SCALE_BITS: Final = 24
"""Fraction bits of one value: 6e-8, below the spacing of float32 from 0.5 on."""

LARGEST: Final = float(2**16)
"""Bound of |x|. Weights of a working network are far below."""

WHOLE: Final = 2**20
"""What the integer weights of a row sum to."""

RESULT_LIMIT: Final = 2**60
"""Bound of a sum's magnitude. Below it, two sums that differ at all differ modulo the prime of the check value."""


def to_words(values: Float32Array) -> Words:
    """(P,) float32 to (P,) words. InvalidInput for a value that is not finite or not below 2^16 in magnitude."""
    largest = float(np.abs(values).max()) if values.size else 0.0
    if not largest < LARGEST:  # false for NaN, too
        raise InvalidInput("weights", f"a value of size {largest:g}", "finite values below 65536 in a sealed run")
    scaled = values.astype(np.float64)
    scaled *= 2.0**SCALE_BITS
    np.rint(scaled, out=scaled)
    return scaled.astype(np.int64).view(np.uint64)


def signed(words: Words) -> NDArray[np.int64]:
    """(P,) words as integers around 0."""
    return words.view(np.int64)


def is_possible(sums: NDArray[np.int64]) -> bool:
    """Whether these can be sums of values in range by weights that sum to `WHOLE`."""
    return not sums.size or (int(sums.max()) < RESULT_LIMIT and int(sums.min()) > -RESULT_LIMIT)


def to_values(sums: NDArray[np.int64]) -> Float32Array:
    """(P,) sums to the weighted means (P,), as float32."""
    means = sums.astype(np.float64)
    means *= 1.0 / (2.0**SCALE_BITS * WHOLE)  # a power of two: as exact as a division
    return means.astype(np.float32)
