"""Samples as tensors: cut them into batches, and turn stored values into model inputs.

Values stay as stored (8-bit images included) until their batch or, for a small epoch, until their epoch; batches are
slices of one gathered permutation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing

AT_ONCE = 1 << 20
"""Most values of an epoch that is prepared at once: 4 MiB for the duration of the epoch."""
_ALIGNED = 16
"""float32 values in 64 bytes, torch's alignment of tensors: another alignment can change the bits of a product."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """x: (n, *input_shape) as stored; y: (n,) int64 class numbers; both on the training device."""

    x: Tensor
    y: Tensor
    preprocessing: Preprocessing

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InvalidInput("labels", f"{len(self.y)} labels", f"one for each of {len(self.x)} samples")

    def __len__(self) -> int:
        return len(self.y)

    def inputs(self, batch_size: int) -> Iterator[Tensor]:
        """Yield model inputs in stored order."""
        for start, stop in batch_bounds(len(self), batch_size):
            yield self.prepare(self.x[start:stop])

    def batches(
        self, batch_size: int, order: Tensor | None = None, *, cut: str = "reference"
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (inputs, targets), in stored or in the given order, which may omit samples (gathered once)."""
        x, y = (self.x, self.y) if order is None else (self.x[order], self.y[order])
        bounds = batch_bounds(len(y), batch_size, cut)
        aligned = all(x[:start].numel() % _ALIGNED == 0 for start, _ in bounds)
        at_once = order is not None and x.numel() <= AT_ONCE and aligned
        if at_once and not (self.preprocessing.is_identity and x.dtype == torch.float32):
            x = self.prepare(x)
        for start, stop in bounds:
            yield x[start:stop] if at_once else self.prepare(x[start:stop]), y[start:stop]

    def prepare(self, stored: Tensor) -> Tensor:
        """Turn stored values into model inputs, in float32. Returns a copy: a model may work in place."""
        return apply(self.preprocessing, stored.to(torch.float32, copy=True))


def apply(preprocessing: Preprocessing, values: Tensor) -> Tensor:
    """Compute value * scale + offset in place; constants per column apply along the last axis."""
    if preprocessing.is_identity:
        return values
    scale, offset = (
        torch.tensor(constant, device=values.device) if isinstance(constant, tuple) else constant
        for constant in (preprocessing.scale, preprocessing.offset)
    )
    return values.mul_(scale).add_(offset)


def batch_bounds(samples: int, batch_size: int, cut: str = "reference") -> list[tuple[int, int]]:
    """Return [start, stop) of every batch; none has a single sample unless there is only one: BN cannot train on one.

    even: round(samples / batch_size) batches whose sizes differ by at most one, so between 2/3 and 3/2 of `batch_size`
    if there are at least that many samples. reference: full batches and a rest, like data loaders; a rest of one joins
    the previous batch, and a rest of a few samples gives batch-norm statistics that spoil the model for a round.
    """
    if cut == "even":
        return _even_bounds(samples, batch_size)
    starts = list(range(0, samples, batch_size))
    if len(starts) > 1 and samples - starts[-1] == 1:
        starts.pop()
    return list(itertools.pairwise([*starts, samples]))


def _even_bounds(samples: int, batch_size: int) -> list[tuple[int, int]]:
    if samples == 0:
        return []
    count = min(max(1, round(samples / batch_size)), max(1, samples // 2))
    small, larger = divmod(samples, count)
    sizes = [small + 1] * larger + [small] * (count - larger)
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))
