"""Sum 64-bit words with integer weights, exactly and modulo 2^64, for all receivers at once.

The words are split into two halves of 32 bits, each multiplied in float64: rows sum to 2^20, so that every sum is below
2^52 and exact whatever the order or the threads. Independent of members and files: like `aggregation.mix_tiles` it gets
functions that read and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedap_core.aggregation import in_tiles, tile_columns
from fedap_core.errors import InvalidInput
from fedap_core.sealing.fixed_point import WHOLE, Words

_BLOCK = 4096
"""Words mixed per product: halves and sums of 20 members stay in a core's cache."""

WordAccess = Callable[[int, Words], None]
"""(first column, rows by columns): fills or stores one tile of all rows."""

_EXPONENT = np.uint64(0x4330000000000000)
_SHIFT = np.uint64(32)
_TO_MANTISSA = 2.0**52
"""Adding 2^52 to a number below 2^52 puts it into the low bits of the float64: cheaper than a conversion."""


def mix_words(
    weights: NDArray[np.int64], count: int, *, read: WordAccess, write: WordAccess, threads: int | None = None
) -> None:
    """Compute the sum over j of weights[i, j] * words[j] mod 2^64 for every row i, over `count` words.

    weights: (r, m), >= 0, rows sum to 2^20. read and write: as in `aggregation.mix_tiles`.
    """
    if weights.ndim != 2 or weights.size == 0 or (weights < 0).any() or (weights.sum(axis=1) != WHOLE).any():
        raise InvalidInput("weights", weights.tolist(), f"rows of whole numbers >= 0 that sum to {WHOLE}")
    factors = weights.astype(np.float64)
    columns = tile_columns(weights.shape[1]) // 2  # words are twice as long as float32 values

    @contextmanager
    def borrowed() -> Iterator[_WordScratch]:
        yield _WordScratch(factors, columns)

    in_tiles(count, columns, borrowed, read=read, write=write, threads=threads)


class _WordScratch:
    """One tile of words of every giver and receiver, and a block of halves."""

    def __init__(self, factors: NDArray[np.float64], columns: int) -> None:
        rows, members = factors.shape
        self._factors = factors
        self._words = np.zeros((members, columns), dtype=np.uint64)
        self._mixed = np.empty((rows, columns), dtype=np.uint64)
        self._halves = np.empty((members, _BLOCK))
        self._low = np.empty((rows, _BLOCK))
        self._high = np.empty((rows, _BLOCK))

    def tile(self, width: int) -> Words:
        return self._words[:, :width]

    def product(self, width: int) -> Words:
        """Return the first columns of the sums; valid until the next call."""
        for start in range(0, width, _BLOCK):
            self._multiply(start, min(start + _BLOCK, self._words.shape[1]))
        return self._mixed[:, :width]

    def _multiply(self, start: int, stop: int) -> None:
        """Mix one block of columns, [start, stop)."""
        size, mixed = stop - start, self._mixed[:, start:stop]
        parts = self._words.astype("<u8", copy=False).view("<u4").reshape(*self._words.shape, 2)[:, start:stop]
        halves, low, high = self._halves[:, :size], self._low[:, :size], self._high[:, :size]
        for part, sums in ((0, low), (1, high)):
            np.copyto(halves, parts[:, :, part])
            np.matmul(self._factors, halves, out=sums)
            sums += _TO_MANTISSA
        lows, highs = self._low.view(np.uint64)[:, :size], self._high.view(np.uint64)[:, :size]
        np.left_shift(highs, _SHIFT, out=highs)
        np.add(lows, highs, out=mixed)
        np.subtract(mixed, _EXPONENT, out=mixed)
