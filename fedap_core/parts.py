"""The parts of a model that a strategy may keep local, and their tensors.

Pure description: `nn.batchnorm` and `nn.heads` find the parts in a model, the initial model file stores them, and the
coordinator reads them without torch.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fedap_core.errors import InvalidInput

LARGEST_VALUE = 1e6
"""Largest magnitude of a value in a model that a participant uses, and of a running mean that is mixed. Weights of a
working network are far smaller; products of larger ones overflow in the next layers."""

LARGEST_VARIANCE = LARGEST_VALUE**2
"""The same for a running variance, which is a square."""


class Part(enum.IntEnum):
    """The part a tensor belongs to. The order is the precedence among tied tensors: the most private alias decides."""

    BODY = 0
    HEAD = 1
    BATCH_NORM = 2


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One tensor of a model: its first name, shape, part, and whether gradient descent changes it."""

    name: str
    shape: tuple[int, ...]
    part: Part
    trainable: bool
    floating: bool = True

    def __post_init__(self) -> None:
        if self.trainable and not self.floating:
            raise InvalidInput(f"tensor {self.name}", "integer and trainable", "integer tensors are never trained")
        if not all(isinstance(size, int) and size >= 0 for size in self.shape):
            raise InvalidInput(f"tensor {self.name}", self.shape, "a shape of whole numbers >= 0")

    @property
    def size(self) -> int:
        """Number of values; a scalar has one."""
        return math.prod(self.shape)

    @property
    def is_variance(self) -> bool:
        """Whether its values are running variances of batch norm: never negative."""
        return self.part is Part.BATCH_NORM and not self.trainable and self.name.endswith("running_var")


def variance_ranges(tensors: Iterable[TensorSpec]) -> tuple[tuple[int, int], ...]:
    """Return where the running variances of these tensors, given in wire order, are among their flat values: (start,
    stop) of each."""
    ranges, start = [], 0
    for one in tensors:
        if one.is_variance:
            ranges.append((start, start + one.size))
        start += one.size
    return tuple(ranges)


def shared_tensors(tensors: Iterable[TensorSpec], home: Collection[Part]) -> tuple[TensorSpec, ...]:
    """Return the tensors that are sent, in wire order: trainable ones first, each kind in model order.

    Integer tensors (counters such as num_batches_tracked) have no meaningful average and are never sent.
    """
    leaving = [tensor for tensor in tensors if tensor.floating and tensor.part not in home]
    return tuple(sorted(leaving, key=lambda tensor: not tensor.trainable))
