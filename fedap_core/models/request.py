"""The argument of a model factory: the shape of one sample and the number of classes, checked once.

Independent of architectures and data sets.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedap_core.errors import InvalidInput

MONAI = "monai:"
"""Prefix of the names of MONAI's networks."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One sample has `input_shape` (channels first, no batch axis); the model returns `classes` logits."""

    input_shape: tuple[int, ...]
    classes: int

    def __post_init__(self) -> None:
        if not self.input_shape or any(size < 1 for size in self.input_shape):
            raise InvalidInput("model.input_shape", self.input_shape, "at least one size, all of them >= 1")
        if self.classes < 2:
            raise InvalidInput("model.classes", self.classes, "at least 2 classes")

    def expect_axes(self, model: str, axes: str, *, minimum: tuple[int, ...]) -> None:
        """Refuse shapes that the architecture cannot take; `axes` describes the axes, `minimum` bounds each."""
        shape = self.input_shape
        if len(shape) != len(minimum):
            raise InvalidInput("model.input_shape", shape, f"{len(minimum)} axes {axes} for {model}")
        if any(size < least for size, least in zip(shape, minimum, strict=True)):
            fix = "Enlarge or pad the inputs, or choose another model."
            raise InvalidInput("model.input_shape", shape, f"at least {minimum} {axes} for {model}", fix)
