"""The linear check value of an update, by which a receiver notices that a sum is not the one that was announced.

With p = 2^61 - 1, r a secret vector of the run and s a secret number of one upload, t = <r, q> + s mod p. Sums of check
values by integer weights are check values of the sums. Decides the arithmetic modulo p, exact and in numpy; where r and
s come from is decided elsewhere. t travels as two halves, each below 2^31, which 64-bit words can be summed over
without wrapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedap_core.sealing.fixed_point import Words

PRIME: Final = 2**61 - 1

_HALF_BITS: Final = 31
_LOW_HALF: Final = np.uint64(2**_HALF_BITS - 1)
_BLOCK: Final = 8192
"""Values multiplied at a time: what lies between stays in the cache."""


def residues(words: Words) -> Words:
    """Words of 64 random bits as numbers modulo p: 61 of the bits, p itself counting as 0 (a bias of 2^-61)."""
    reduced = words & np.uint64(PRIME)
    reduced[reduced == PRIME] = 0
    return reduced


def inner_product(secret: Words, integers: NDArray[np.int64]) -> int:
    """<r, q> mod p. secret: (P,) residues. integers: (P,), magnitudes below p."""
    total = 0
    for start in range(0, secret.size, _BLOCK):
        total += _partial(secret[start : start + _BLOCK], integers[start : start + _BLOCK])
    return total % PRIME


def _partial(secret: Words, integers: NDArray[np.int64]) -> int:
    """Halves of 31 and 30 bits: their products, and the sum of the middle two, stay below 2^62."""
    numbers = integers.view(np.uint64) + np.where(integers < 0, np.uint64(PRIME), np.uint64(0))
    low, high = secret & _LOW_HALF, secret >> np.uint64(_HALF_BITS)
    lower, higher = numbers & _LOW_HALF, numbers >> np.uint64(_HALF_BITS)
    total = 0
    for shift, products in enumerate((low * lower, low * higher + high * lower, high * higher)):
        upper = int((products >> np.uint64(32)).sum())
        products &= np.uint64(2**32 - 1)
        total += (int(products.sum()) + (upper << 32)) << (_HALF_BITS * shift)
    return total


def halves(value: int) -> tuple[int, int]:
    """A check value as it travels: two words that are summed like all others."""
    return value & (2**_HALF_BITS - 1), value >> _HALF_BITS


def whole(low: int, high: int) -> int:
    """Back from sums of halves."""
    return (low + (high << _HALF_BITS)) % PRIME


def weighted(weights: Iterable[int], numbers: Iterable[int]) -> int:
    """Sum of w * s mod p."""
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True)) % PRIME
