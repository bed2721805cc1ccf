"""Compute the linear check value of an update, by which a receiver detects that a sum is not the announced one.

With p = 2^61 - 1, r a secret vector of the run and s a secret number of one upload, t = <r, q> + s mod p. Sums of check
values with integer weights are check values of the sums. Implements the arithmetic modulo p, exact and in numpy; r and
s are derived elsewhere. t is sent as two halves, each below 2^31, so that sums of them do not overflow 64-bit words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedap_core.sealing.fixed_point import Words

PRIME: Final = 2**61 - 1

_HALF_BITS: Final = 31
_LIMB_BITS: Final = (20, 21)
"""Limb sizes of the integers and of the secret: each is cut into three limbs, multiplied in float64."""
_BLOCK: Final = 2048
"""Products summed at a time: 2^21 * 2^21 * 2^11 = 2^53, so that float64 is exact in any order."""
_BLOCKS: Final = 512
"""Block sums added as 64-bit integers at a time: 2^53 * 2^9 = 2^62."""

Limbs = NDArray[np.float64]
"""(3, P): a secret vector, cut for `product_with`."""


def residues(words: Words) -> Words:
    """Turn words of 64 random bits into numbers modulo p: 61 of the bits, with p itself as 0 (a bias of 2^-61)."""
    reduced = words & np.uint64(PRIME)
    reduced[reduced == PRIME] = 0
    return reduced


def limbs(secret: Words) -> Limbs:
    """Cut a secret vector (P,) of residues into limbs, for repeated use."""
    return _cut(secret, _LIMB_BITS[1])


def product_with(secret: Limbs, integers: NDArray[np.int64]) -> int:
    """<r, q> mod p. secret: (3, P), from `limbs`. integers: (P,), magnitudes below p."""
    total = 0
    for start in range(0, integers.size, _BLOCK * _BLOCKS):
        stop = start + _BLOCK * _BLOCKS
        total += _partial(secret[:, start:stop], integers[start:stop])
    return total % PRIME


def _partial(secret: Limbs, integers: NDArray[np.int64]) -> int:
    """Sum the products of limbs; for every block each sum is an integer below 2^53 in magnitude."""
    sums = np.zeros((3, 3), dtype=np.int64)
    for start in range(0, integers.size, _BLOCK):
        cut = _cut(integers[start : start + _BLOCK], _LIMB_BITS[0])
        sums += (cut @ secret[:, start : start + _BLOCK].T).astype(np.int64)
    first, second = _LIMB_BITS
    return sum(int(sums[i, j]) << (first * i + second * j) for i in range(3) for j in range(3))


def _cut(numbers: NDArray[np.int64] | Words, bits: int) -> Limbs:
    """Cut (P,) into (3, P), lowest limb first; the highest has the sign."""
    cut = np.empty((3, numbers.size))
    low = numbers.dtype.type(2**bits - 1)
    cut[0] = numbers & low
    higher = numbers >> numbers.dtype.type(bits)
    cut[1] = higher & low
    cut[2] = higher >> numbers.dtype.type(bits)
    return cut


def halves(value: int) -> tuple[int, int]:
    """Return a check value as it is sent: two words that are summed like all others."""
    return value & (2**_HALF_BITS - 1), value >> _HALF_BITS


def whole(low: int, high: int) -> int:
    """Restore a check value from sums of halves."""
    return (low + (high << _HALF_BITS)) % PRIME


def weighted(weights: Iterable[int], numbers: Iterable[int]) -> int:
    """Sum of w * s mod p."""
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True)) % PRIME
