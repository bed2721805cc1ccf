"""coarse: int4's form with steps so large that most values become 0, of which zstd leaves about two bits a value.

A block is 256 values. Its scale is 1.1 times the root of their mean square, or a seventh of the largest magnitude where
that is more, so that nothing is cut off. For differences only, whose errors are made up for later: one rounding loses
about 9 % of their energy. Few scales and few distinct steps are what makes it compressible; how it is compressed,
`compression` says.
"""

from __future__ import annotations

import numpy as np

from protocol.encodings.blocks import Bytes, from_int4, in_steps, largest_of, paired
from protocol.encodings.halves import Float32Array

BLOCK = 256
BLOCK_BYTES = 2 + BLOCK // 2
STEP = np.float32(1.1)
"""Scale relative to a block's root mean square. 0.9 takes a seventh more bytes for two thirds of the error."""


def to_coarse(values: Float32Array) -> Bytes:
    """Encode flat values (n,), n a multiple of 256, as (n / 256, 130) bytes."""
    blocks = values.reshape(-1, BLOCK)
    with np.errstate(invalid="ignore", over="ignore"):
        usual = np.sqrt(np.square(blocks, dtype=np.float64).mean(axis=1)).astype(np.float32)
        least = np.maximum(largest_of(blocks) / np.float32(7), STEP * usual)
    return paired(*in_steps(blocks, least, most=7))


from_coarse = from_int4
"""Undoes `to_coarse`, flat: only the sender chooses the scale."""
