"""The single place where weights are averaged: psi_i = sum_j w_ij psi_j (eq. 2) for all members at once.

Decides in which order numbers are multiplied and added, and thereby the bits of every personalised model. Knows nothing
of who the members are, of layers, or of where the arrays live: `mix_tiles` is handed what reads and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import check_mixing

TILE_COLUMNS = 65_536
"""Parameters mixed per product. Constant, and the last tile padded with zeros: BLAS picks its kernels by shape, so
another width would give other last bits. 256 KiB per member keeps the scratch of 20 members near the cache."""

TileAccess = Callable[[int, Float32Array], None]
"""(first column, rows by columns): one tile of all rows, to be filled or to be kept. Every row is contiguous."""


def mix(mixing: FloatArray, updates: Sequence[Float32Array], out: Sequence[Float32Array]) -> None:
    """Write out[i] = sum_j mixing[i, j] * updates[j] for every row of the mixing matrix.

    mixing: (r, m), rows sum to 1. updates: m arrays (P,), finite: a NaN spreads even through weight 0, so leave absent
    members out. out: r arrays (P,), written; they may be the updates themselves (r == m), but must not overlap them or
    each other in any other way. P == 0 is legal: a strategy may share nothing.

    Law: the bits depend on `mixing` and `updates` alone; not on threads, not on P's remainder, not on working in place.
    Scratch memory is (r + m) tiles, never a second copy of all models.
    """
    parameters = _check(mixing, updates, out)

    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    def write(start: int, mixed: Float32Array) -> None:
        for target, row in zip(out, mixed, strict=True):
            target[start : start + row.size] = row

    mix_tiles(mixing, parameters, read=read, write=write)


def mix_tiles(mixing: FloatArray, parameters: int, *, read: TileAccess, write: TileAccess) -> None:
    """The same product, bit for bit, over rows that need not be in memory: P = `parameters` values each.

    mixing: (r, m). read(start, tile) fills tile (m, width) with values start .. start + width - 1 of every update;
    write(start, mixed) takes the same columns of all r results, and must copy what it keeps. Tiles come in order, all
    TILE_COLUMNS wide but the last, and a tile is read before it is written, so both may work on the same rows.
    """
    check_mixing(mixing)
    rows, members = mixing.shape
    weights = mixing.astype(np.float32)
    tile = np.zeros((members, TILE_COLUMNS), dtype=np.float32)
    mixed = np.empty((rows, TILE_COLUMNS), dtype=np.float32)
    with _blas().limit(limits=1, user_api="blas"):  # how a product is cut among threads shows in its last bits
        for start in range(0, parameters, TILE_COLUMNS):
            width = min(TILE_COLUMNS, parameters - start)
            tile[:, width:] = 0.0
            read(start, tile[:, :width])
            np.matmul(weights, tile, out=mixed)
            write(start, mixed[:, :width])


@cache
def _blas() -> ThreadpoolController:
    """The controller of numpy's BLAS, found once: looking through the loaded libraries takes milliseconds."""
    return ThreadpoolController()


def _check(mixing: FloatArray, updates: Sequence[Float32Array], out: Sequence[Float32Array]) -> int:
    """Refuse what does not fit together; returns P."""
    check_mixing(mixing)
    if mixing.shape != (len(out), len(updates)):
        expected = f"({len(out)}, {len(updates)}): outputs by updates"
        raise InvalidInput("mixing", f"shape {mixing.shape}", expected)
    shape = (updates[0].size,)
    for field, arrays in (("updates", updates), ("out", out)):
        for number, array in enumerate(arrays):
            if array.shape != shape or array.dtype != np.float32:
                raise InvalidInput(f"{field}[{number}]", f"{array.dtype} {array.shape}", f"float32 {shape}")
    return shape[0]
