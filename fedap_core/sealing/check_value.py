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
_LIMB_BITS: Final = 21
_LIMBS: Final = 3
_BLOCK: Final = 1024
"""Products of two limbs are below 2^42; a thousand of them still have an exact sum in float64."""


def residues(words: Words) -> Words:
    """Words of 64 random bits as numbers modulo p: 61 of the bits, p itself counting as 0 (a bias of 2^-61)."""
    reduced = words & np.uint64(PRIME)
    reduced[reduced == PRIME] = 0
    return reduced


def inner_product(secret: Words, integers: NDArray[np.int64]) -> int:
    """<r, q> mod p. secret: (P,) residues. integers: (P,), any int64."""
    total = 0
    for start in range(0, secret.size, _BLOCK * 64):
        stop = min(start + _BLOCK * 64, secret.size)
        total += _partial(secret[start:stop], integers[start:stop])
    return total % PRIME


def _partial(secret: Words, integers: NDArray[np.int64]) -> int:
    signs = np.where(integers < 0, -1.0, 1.0)
    sizes = np.abs(integers).view(np.uint64)  # of -2^63 too: its absolute value is itself, read without a sign
    left, right = _limbs(secret), _limbs(sizes)
    right *= signs
    blocks = -(-secret.size // _BLOCK)
    products = np.matmul(_blocked(left, blocks), _blocked(right, blocks).transpose(0, 2, 1))
    sums = products.astype(np.int64).tolist()
    return sum(
        value << (_LIMB_BITS * (i + j))
        for block in sums
        for i, line in enumerate(block)
        for j, value in enumerate(line)
    )


def _limbs(words: Words) -> NDArray[np.float64]:
    """(3, P): 21 bits each, the last the rest (22)."""
    limbs = np.empty((_LIMBS, words.size))
    mask = np.uint64(2**_LIMB_BITS - 1)
    limbs[0] = words & mask
    limbs[1] = (words >> np.uint64(_LIMB_BITS)) & mask
    limbs[2] = words >> np.uint64(2 * _LIMB_BITS)
    return limbs


def _blocked(limbs: NDArray[np.float64], blocks: int) -> NDArray[np.float64]:
    padded = np.zeros((_LIMBS, blocks * _BLOCK))
    padded[:, : limbs.shape[1]] = limbs
    return padded.reshape(_LIMBS, blocks, _BLOCK).transpose(1, 0, 2)


def halves(value: int) -> tuple[int, int]:
    """A check value as it travels: two words that are summed like all others."""
    return value & (2**_HALF_BITS - 1), value >> _HALF_BITS


def whole(low: int, high: int) -> int:
    """Back from sums of halves."""
    return (low + (high << _HALF_BITS)) % PRIME


def weighted(weights: Iterable[int], numbers: Iterable[int]) -> int:
    """Sum of w * s mod p."""
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True)) % PRIME
