"""Store gradients in one flat buffer beside the parameters; autograd adds most of them there.

The weight gradient of a large linear layer is written there directly by its matrix product. Autograd would compute it
in newly allocated memory (which the system clears page by page, in twice the time of the product) and add it to zeros
that must be rewritten for every step: the same bits, but this takes half of AlexNet's step time. Independent of
optimiser and objective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from fedap_core.nn.state import FlatModel

Context = Any  # torch types the context of an autograd function as Any

DIRECT_FROM = 1 << 20
"""Least number of weights for which a linear layer's gradient is written directly; below, allocation costs little."""


class FlatGradient:
    """`flat` has the shape of `model.trainable`. Between `clear` and `complete` only backward may write to it.

    Law: after backward and `complete` it holds what autograd would have added to zeros, whether a layer was used once,
    repeatedly, not at all, or its weight was also used elsewhere.
    """

    def __init__(self, model: FlatModel, *, direct_from: int = DIRECT_FROM) -> None:
        self._model = model
        self.flat = torch.empty_like(model.trainable)
        model.attach_gradient(self.flat)
        slots: dict[int, _Slot] = {}
        self._layers: list[nn.Linear] = []
        for layer in model.module.modules():
            if not _is_direct(layer, direct_from):
                continue
            key = id(layer.weight)  # layers may share one
            if key not in slots:
                slots[key] = _Slot(layer.weight)
            layer.forward = _forward(layer, slots[key])  # type: ignore[method-assign, assignment]
            self._layers.append(layer)
        self._slots = tuple(slots.values())
        self._others = self._outside(self._slots)
        self.clear()

    def clear(self) -> None:
        """Reset the gradient: direct ones will be overwritten, the others are added to zeros."""
        for slot in self._slots:
            slot.is_written = False
        for part in self._others:
            part.zero_()

    def complete(self) -> None:
        """Write zeros for weights whose gradient backward did not write."""
        for slot in self._slots:
            if not slot.is_written:
                slot.gradient.zero_()

    def detach(self) -> None:
        """Restore the layers and release the buffer, so that it can be freed between rounds."""
        for layer in self._layers:
            del layer.forward
        for slot in self._slots:
            slot.handle.remove()
        self._model.detach_gradient()

    def _outside(self, slots: tuple[_Slot, ...]) -> tuple[Tensor, ...]:
        """Return the ranges of the buffer that no slot covers."""
        taken = sorted((int(slot.gradient.storage_offset()), slot.gradient.numel()) for slot in slots)
        stretches, at = [], 0
        for offset, size in [*taken, (self.flat.numel(), 0)]:
            if offset > at:
                stretches.append(self.flat[at:offset])
            at = offset + size
        return tuple(stretches)


class _Slot:
    """The gradient memory of one weight, and whether it has been written in this step."""

    def __init__(self, weight: Tensor) -> None:
        self.gradient: Tensor = weight.grad  # type: ignore[assignment]  # attached just before
        self.is_written = False
        self.handle = weight.register_hook(self._on_gradient_by_autograd)  # type: ignore[no-untyped-call]

    def write(self, outputs: Tensor, inputs: Tensor) -> None:
        """Write or add outputs^T @ inputs: (n, out), (n, in) -> (out, in)."""
        if self.is_written:
            self.gradient.add_(torch.mm(outputs.t(), inputs))
        else:
            torch.mm(outputs.t(), inputs, out=self.gradient)
            self.is_written = True

    def _on_gradient_by_autograd(self, gradient: Tensor | None) -> None:
        """Prepare for autograd, if the weight was also used elsewhere: it must add to zeros or to what was written."""
        if gradient is not None and not self.is_written:
            self.gradient.zero_()
            self.is_written = True


def _is_direct(layer: nn.Module, direct_from: int) -> TypeGuard[nn.Linear]:
    """Whether a layer is a stock linear one (a subclass may have another forward) with a large weight, trained on a
    CPU."""
    if type(layer) is not nn.Linear or "forward" in vars(layer):
        return False
    weight = layer.weight
    return weight.requires_grad and weight.is_cpu and weight.numel() >= direct_from


def _forward(layer: nn.Linear, slot: _Slot) -> Callable[[Tensor], Tensor]:
    def forward(input: Tensor) -> Tensor:  # noqa: A002 - the stock layer's name for it
        stock = input.dim() != 2 or not torch.is_grad_enabled()
        if stock or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
            return F.linear(input, layer.weight, layer.bias)
        outputs: Tensor = _DirectLinear.apply(input, layer.weight, layer.bias, slot)  # type: ignore[no-untyped-call]
        return outputs

    return forward


class _DirectLinear(torch.autograd.Function):
    """F.linear, but autograd never sees the weight's gradient."""

    @staticmethod
    def forward(ctx: Context, inputs: Tensor, weight: Tensor, bias: Tensor | None, slot: _Slot) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.slot = slot
        return F.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        grad_inputs = torch.mm(grad, weight) if ctx.needs_input_grad[0] else None
        ctx.slot.write(grad, inputs)
        grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        return grad_inputs, None, grad_bias, None
