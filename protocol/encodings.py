"""How float32 values travel: as they are (f32), or as half as many bytes (f16). Both ends convert at the wire.

f16 is lossy and therefore outside any promise of equal bits. It has no room above 65504: the sender refuses to send
what does not fit, and a receiver that finds an infinity refuses it too. NaN passes: whether a model may hold one is not
for the wire to decide. This file must not know layouts or messages.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InvalidField, Overflow

Encoding = Literal["f32", "f16"]
ENCODINGS: tuple[Encoding, ...] = ("f32", "f16")

Float32Array = NDArray[np.float32]
Float16Array = NDArray[np.float16]

F16_LARGEST = float(np.finfo(np.float16).max)


def narrow(values: Float32Array) -> Float16Array:
    """float32 to f16, any shape; InvalidField if a value is infinite or becomes so."""
    with np.errstate(over="ignore"):
        halves: Float16Array = values.astype("<f2")
    if np.isinf(halves).any():
        worst = float(np.nanmax(np.abs(values)))
        raise InvalidField("encoding", worst, f"magnitudes up to {F16_LARGEST:g} under f16 (f32 has no such bound)")
    return halves


def widen(halves: Float16Array) -> Float32Array:
    """f16 to float32, exact, any shape; Overflow if the sender let an infinity through."""
    if np.isinf(halves).any():
        raise Overflow(f"an f16 tensor holds {int(np.isinf(halves).sum())} infinite values")
    return halves.astype(np.float32)
