"""How stored values become model inputs: one affine step, the same for every client, never from data statistics.

Constants only: a scale computed from pooled or test data would leak it. Participants compare `digest` before training.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """model input = stored value * scale + offset; `steps` tells in words what the source did before storing."""

    scale: float = 1.0
    offset: float = 0.0
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not math.isfinite(self.scale) or self.scale == 0.0:
            raise InvalidInput("preprocessing.scale", self.scale, "a finite number other than 0")
        if not math.isfinite(self.offset):
            raise InvalidInput("preprocessing.offset", self.offset, "a finite number")

    @property
    def is_identity(self) -> bool:
        return self.scale == 1.0 and self.offset == 0.0

    @property
    def digest(self) -> str:
        """Sixteen hex digits that agree exactly when two parties preprocess alike."""
        text = "\x1f".join((float(self.scale).hex(), float(self.offset).hex(), *self.steps))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


IMAGE_8BIT = Preprocessing(scale=1.0 / 127.5, offset=-1.0, steps=("8-bit image", "(x / 255 - 0.5) / 0.5"))
"""Grey or colour images of 0..255 onto -1..1."""
