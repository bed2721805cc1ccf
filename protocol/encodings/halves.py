"""Two bytes for each float32: f16 (IEEE half precision) and bf16 (a float32 without its lower 16 bits).

f16 ends at 65504: the sender refuses larger values, and a receiver refuses an infinity. bf16 has the range of float32
and three decimal digits. NaN passes both: the wire does not decide whether a model may hold one. Any shape; this file
must not know layouts or messages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InvalidField, Overflow

Float32Array = NDArray[np.float32]
Float16Array = NDArray[np.float16]
UpperHalves = NDArray[np.uint16]

F16_LARGEST = float(np.finfo(np.float16).max)
_QUIET_NAN = 0x7FC0


def narrow(values: Float32Array) -> Float16Array:
    """Convert float32 to f16; InvalidField if a value is or becomes infinite."""
    with np.errstate(over="ignore"):
        halves: Float16Array = values.astype("<f2")
    if np.isinf(halves).any():
        worst = float(np.nanmax(np.abs(values)))
        raise InvalidField("encoding", worst, f"magnitudes up to {F16_LARGEST:g} under f16 (f32 has no such bound)")
    return halves


def widen(halves: Float16Array) -> Float32Array:
    """Convert f16 to float32, exactly; Overflow if there is an infinity."""
    if np.isinf(halves).any():
        raise Overflow(f"an f16 tensor holds {int(np.isinf(halves).sum())} infinite values")
    return halves.astype(np.float32)


def upper_halves(values: Float32Array) -> UpperHalves:
    """Convert float32 to bf16, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4").astype(np.uint64).reshape(values.shape)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(values), np.uint16(_QUIET_NAN), rounded).astype("<u2")


def from_upper_halves(halves: UpperHalves) -> Float32Array:
    """Convert bf16 to float32, exactly."""
    return (halves.astype("<u4") << 16).view("<f4").reshape(halves.shape)
