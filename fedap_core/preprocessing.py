"""Turn stored values into model inputs: one affine step, the same for every client.

Constants only: a scale computed from pooled or test data would leak them. Participants compare `digest` before
training.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedap_core.errors import InvalidInput

Constant = float | tuple[float, ...]
"""One number for all values, or one for every position of the last axis: the columns of a table."""


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """model input = stored value * scale + offset; `steps` describes what the source did before storing.

    recipe: the data options with which a source stores such values. It is part of the model file, so that every other
    hospital and every later prediction reads its files in the same way; `steps` decides whether two sides agree.
    """

    scale: Constant = 1.0
    offset: Constant = 0.0
    steps: tuple[str, ...] = ()
    recipe: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name, constant in (("scale", self.scale), ("offset", self.offset)):
            if not all(math.isfinite(value) for value in _values(constant)):
                raise InvalidInput(f"preprocessing.{name}", constant, "finite numbers")
        if 0.0 in _values(self.scale):
            raise InvalidInput("preprocessing.scale", self.scale, "a finite number other than 0")

    def __str__(self) -> str:
        """For display: the steps, then the constants."""
        return f"{', '.join(self.steps) or 'values as stored'}; scale {self.scale}, offset {self.offset}"

    def to_list(self) -> list[object]:
        """Return it as JSON values; three entries if there is no recipe."""
        return [self.scale, self.offset, self.steps, *([dict(self.recipe)] if self.recipe else [])]

    @classmethod
    def from_list(cls, stored: Sequence[Any]) -> Preprocessing:
        """Restore what `to_list` returned, read from JSON."""
        scale, offset, steps, *recipe = stored
        return cls(
            scale=tuple(scale) if isinstance(scale, list) else scale,
            offset=tuple(offset) if isinstance(offset, list) else offset,
            steps=tuple(steps),
            recipe=tuple((str(key), str(value)) for key, value in dict(recipe[0]).items()) if recipe else (),
        )

    @property
    def is_identity(self) -> bool:
        return self.scale == 1.0 and self.offset == 0.0

    @property
    def columns(self) -> int | None:
        """The required length of the last axis; None: any length."""
        lengths = {len(constant) for constant in (self.scale, self.offset) if isinstance(constant, tuple)}
        if len(lengths) > 1:
            raise InvalidInput("preprocessing", f"constants for {sorted(lengths)} columns", "as many scales as offsets")
        return lengths.pop() if lengths else None

    @property
    def digest(self) -> str:
        """Sixteen hex digits that are equal exactly if two parties preprocess alike."""
        text = "\x1f".join((_hex(self.scale), _hex(self.offset), *self.steps))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _values(constant: Constant) -> tuple[float, ...]:
    return constant if isinstance(constant, tuple) else (constant,)


def _hex(constant: Constant) -> str:
    return " ".join(float(value).hex() for value in _values(constant))


IMAGE_8BIT = Preprocessing(scale=1.0 / 127.5, offset=-1.0, steps=("8-bit image", "(x / 255 - 0.5) / 0.5"))
"""Maps grey or colour images from 0..255 to -1..1."""
