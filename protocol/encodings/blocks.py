"""int8 and int4: blocks of 64 values, each with its own scale and one or half a byte per value.

A block is its scale (bf16) and its values as multiples of it, from -127 to 127 or from -7 to 7. The scale is the
block's largest magnitude divided by 127 or 7 and rounded up, so that nothing is clipped. A block with a NaN or an
infinity decodes to values that are not finite, which the receiver's checks refuse. The last block is padded with zeros.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.encodings.halves import Float32Array, from_upper_halves

Bytes = NDArray[np.uint8]

BLOCK = 64
"""Values per scale: an outlier affects few others, and scales are 3 % (int8) or 6 % (int4) of the bytes."""
INT8_BYTES = 2 + BLOCK
INT4_BYTES = 2 + BLOCK // 2


def to_int8(values: Float32Array) -> Bytes:
    """Encode flat values (n,), n a multiple of 64, as (n / 64, 66) bytes."""
    blocks = values.reshape(-1, BLOCK)
    scales, steps = in_steps(blocks, largest_of(blocks) / np.float32(127), most=127)
    return np.hstack([scales, steps.view(np.uint8)])


def from_int8(wire: Bytes) -> Float32Array:
    """Undo `to_int8`, flat."""
    return _scaled(wire, wire[:, 2:].view(np.int8))


def to_int4(values: Float32Array) -> Bytes:
    """Encode flat values (n,), n a multiple of 64, as (n / 64, 34) bytes; the first of two values is the low nibble."""
    blocks = values.reshape(-1, BLOCK)
    return paired(*in_steps(blocks, largest_of(blocks) / np.float32(7), most=7))


def from_int4(wire: Bytes) -> Float32Array:
    """Undo `to_int4`, or decode any `paired` blocks, flat."""
    pairs = wire[:, 2:]
    steps = np.empty((len(wire), 2 * pairs.shape[1]), dtype=np.int8)
    steps[:, 0::2] = (pairs & 15).view(np.int8) - 8
    steps[:, 1::2] = (pairs >> 4).view(np.int8) - 8
    return _scaled(wire, steps)


def largest_of(blocks: Float32Array) -> Float32Array:
    """Return the largest magnitude of each block: (blocks, values) -> (blocks,)."""
    return np.asarray(np.abs(blocks).max(axis=1), dtype=np.float32)


def paired(scales: Bytes, steps: NDArray[np.int8]) -> Bytes:
    """Return blocks of a scale and its steps from -8 to 7, two steps per byte."""
    nibbles = (steps + 8).view(np.uint8)
    return np.hstack([scales, nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)])


def in_steps(blocks: Float32Array, least: Float32Array, *, most: int) -> tuple[Bytes, NDArray[np.int8]]:
    """Return for each block the scale's two bytes, and every value as a multiple of the scale, from -most to most.

    blocks: (blocks, values). least: (blocks,), the scales before they are rounded upwards to bf16.
    """
    upwards = ((least.view("<u4").astype(np.uint64) + 0xFFFF) >> 16).astype("<u2")
    upwards = np.where(np.isfinite(least), upwards, np.uint16(0x7FC0)).astype("<u2")
    scales = from_upper_halves(upwards)
    usable = np.isfinite(scales) & (scales > 0)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.where(usable[:, None], blocks / np.where(usable, scales, 1)[:, None], 0)
    return upwards.view(np.uint8).reshape(-1, 2), np.clip(np.rint(scaled), -most, most).astype(np.int8)


def _scaled(wire: Bytes, steps: NDArray[np.int8]) -> Float32Array:
    scales = from_upper_halves(np.ascontiguousarray(wire[:, :2]).view("<u2"))
    with np.errstate(invalid="ignore", over="ignore"):
        values: Float32Array = steps * scales
    return values.reshape(-1)
