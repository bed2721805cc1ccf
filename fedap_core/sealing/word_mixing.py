"""Sums of 64-bit words by integer weights, modulo 2^64 and exact, for all receivers at once.

The words are cut into two halves of 32 bits, each multiplied in float64: rows sum to 2^20, so that every sum is below
2^52 and exact whatever the order or the threads. Knows neither members nor files: like `aggregation.mix_tiles` it is
handed what reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedap_core.aggregation import in_tiles
from fedap_core.errors import InvalidInput
from fedap_core.sealing.fixed_point import WHOLE, Words

WORD_COLUMNS = 4096
"""Words mixed per product: halves and sums of 20 members stay in the cache of a core."""

WordAccess = Callable[[int, Words], None]
"""(first column, rows by columns): one tile of all rows, to be filled or to be kept."""

_EXPONENT = np.uint64(0x4330000000000000)
_SHIFT = np.uint64(32)
_TO_MANTISSA = 2.0**52
"""A number below 2^52 plus 2^52 has it as the low bits of its float64: cheaper than a conversion."""


def mix_words(
    weights: NDArray[np.int64], count: int, *, read: WordAccess, write: WordAccess, threads: int | None = None
) -> None:
    """Sum over j of weights[i, j] * words[j] mod 2^64 for every row i, over `count` words.

    weights: (r, m), >= 0, rows sum to 2^20. read and write: as in `aggregation.mix_tiles`.
    """
    if weights.ndim != 2 or weights.size == 0 or (weights < 0).any() or (weights.sum(axis=1) != WHOLE).any():
        raise InvalidInput("weights", weights.tolist(), f"rows of whole numbers >= 0 that sum to {WHOLE}")
    factors = weights.astype(np.float64)

    @contextmanager
    def borrowed() -> Iterator[_WordScratch]:
        yield _WordScratch(factors)

    in_tiles(count, WORD_COLUMNS, borrowed, read=read, write=write, threads=threads)


class _WordScratch:
    """One tile of words of every giver and receiver, and the halves between."""

    def __init__(self, factors: NDArray[np.float64]) -> None:
        rows, members = factors.shape
        self._factors = factors
        self._words = np.zeros((members, WORD_COLUMNS), dtype=np.uint64)
        self._halves = np.empty((members, WORD_COLUMNS))
        self._low = np.empty((rows, WORD_COLUMNS))
        self._high = np.empty((rows, WORD_COLUMNS))
        self._mixed = np.empty((rows, WORD_COLUMNS), dtype=np.uint64)

    def tile(self, width: int) -> Words:
        return self._words[:, :width]

    def product(self, width: int) -> Words:
        """The first columns of the sums; valid until the next product."""
        parts = self._words.astype("<u8", copy=False).view("<u4").reshape(*self._words.shape, 2)
        for part, sums in ((0, self._low), (1, self._high)):
            np.copyto(self._halves, parts[:, :, part])
            np.matmul(self._factors, self._halves, out=sums)
            sums += _TO_MANTISSA
        low, high = self._low.view(np.uint64), self._high.view(np.uint64)
        np.left_shift(high, _SHIFT, out=high)
        np.add(low, high, out=self._mixed)
        np.subtract(self._mixed, _EXPONENT, out=self._mixed)
        return self._mixed[:, :width]
