"""topk: the 16 largest by magnitude of every 256 values; the others count as zero.

A block is 16 indices (one byte each, ascending) and 16 values (bf16). Because values are chosen per block, the size of
a set is known in advance and an index fits into one byte. If an index occurs twice, the last value counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.encodings.halves import Float32Array, from_upper_halves, upper_halves

BLOCK = 256
KEPT = 16
BLOCK_BYTES = KEPT + 2 * KEPT


def to_largest(values: Float32Array) -> NDArray[np.uint8]:
    """Encode flat values (n,), n a multiple of 256, as (n / 256, 48) bytes."""
    blocks = values.reshape(-1, BLOCK)
    order = -np.nan_to_num(np.abs(blocks), nan=np.inf, posinf=np.inf)  # a NaN must arrive, to be refused
    places = np.sort(np.argpartition(order, KEPT - 1, axis=1)[:, :KEPT], axis=1)
    kept = upper_halves(np.take_along_axis(blocks, places, axis=1))
    return np.hstack([places.astype(np.uint8), kept.view(np.uint8).reshape(-1, 2 * KEPT)])


def from_largest(wire: NDArray[np.uint8]) -> Float32Array:
    """Undo `to_largest`, flat."""
    values = np.zeros((len(wire), BLOCK), dtype=np.float32)
    kept = from_upper_halves(np.ascontiguousarray(wire[:, KEPT:]).view("<u2"))
    np.put_along_axis(values, wire[:, :KEPT].astype(np.intp), kept, axis=1)
    return values.reshape(-1)
