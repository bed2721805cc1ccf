"""Convert weights to integers modulo 2^64 and back: numbers that a pad can hide and a coordinator can still add.

Decides scale and range. |x| < 2^16 becomes q = round(x * 2^24), |q| <= 2^40; integer weights sum to 2^20, so that any
such sum stays within 2^60 and never wraps. Independent of pads and members.
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
"""Fraction bits of one value: a step of 6e-8, below the spacing of float32 from 0.5 upwards."""

LARGEST: Final = float(2**16)
"""Bound on |x|. Weights of a working network are far smaller."""

WHOLE: Final = 2**20
"""The sum of the integer weights of a row."""

RESULT_LIMIT: Final = 2**60
"""Bound on a sum's magnitude. Below it, different sums also differ modulo the prime of the check value."""


def to_words(values: Float32Array) -> Words:
    """Convert (P,) float32 to (P,) words. InvalidInput for a value that is not finite or not below 2^16 in size."""
    largest = float(np.abs(values).max()) if values.size else 0.0
    if not largest < LARGEST:  # also true for NaN
        raise InvalidInput("weights", f"a value of size {largest:g}", "finite values below 65536 in a sealed run")
    scaled = values.astype(np.float64)
    scaled *= 2.0**SCALE_BITS
    np.rint(scaled, out=scaled)
    return scaled.astype(np.int64).view(np.uint64)


def signed(words: Words) -> NDArray[np.int64]:
    """Return (P,) words as signed integers."""
    return words.view(np.int64)


def is_possible(sums: NDArray[np.int64]) -> bool:
    """Whether these can be sums of values in range with weights that sum to `WHOLE`."""
    return not sums.size or (int(sums.max()) < RESULT_LIMIT and int(sums.min()) > -RESULT_LIMIT)


def to_values(sums: NDArray[np.int64]) -> Float32Array:
    """Convert (P,) sums to weighted means (P,), as float32."""
    means = sums.astype(np.float64)
    means *= 1.0 / (2.0**SCALE_BITS * WHOLE)  # a power of two: exact, like a division
    return means.astype(np.float32)
