"""Modify the inputs of the classification layer: add a learnt shift, and pull their mean towards a target.

Uses a hook on the layer, so it works with any architecture. A learnt shift can be folded into the layer's bias, which
gives a model of the original architecture with the same predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.heads import Head
from fedap_core.nn.state import FlatModel
from fedap_core.nn.statistics import head_inputs
from fedap_core.parts import Part
from fedap_core.workspace import Objective


def head_layer(model: FlatModel) -> tuple[str, Head]:
    """Return the classification layer and its name: the layer of the last trainable head tensor."""
    names = [spec.name for spec in model.tensors if spec.trainable and spec.part is Part.HEAD]
    name = names[-1].rpartition(".")[0] if names else ""
    layer = model.module.get_submodule(name)
    if not isinstance(layer, Head):
        raise InvalidInput("head", type(layer).__name__, "a Linear layer or a 1x1 convolution that is trained")
    return name, layer


def head_input_mean(model: FlatModel, batches: Iterable[Tensor]) -> Tensor:
    """Return (features,): the mean of the head's inputs over all batches, in eval mode."""
    name, _ = head_layer(model)
    mean = head_inputs(model.module, name, batches).layers[0].mean
    return torch.tensor(mean, dtype=torch.float32, device=model.trainable.device)


@torch.no_grad()
def fold_shift(model: FlatModel, shift: Tensor) -> None:
    """Make the model predict as if `shift` (features,) were added to its head's inputs: bias <- bias + W shift."""
    name, layer = head_layer(model)
    if layer.bias is None:
        raise InvalidInput(f"layer {name}", "no bias", "a classification layer with a bias, which takes up the shift")
    layer.bias.add_(layer.weight.flatten(1) @ shift)


class HeadTerm:
    """The part of an objective that concerns the head's inputs; without one, `backward` is that of the loss."""

    def __init__(self, objective: Objective, rate: float) -> None:
        self._pull, self._rate = objective.feature_pull, rate
        self._towards: Any = objective.feature_mean
        self._shift: Any = objective.head_shift
        self._mean: Tensor | None = None
        self._learnt: Tensor | None = None

    def on_inputs(self, layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The hook: stores the batch's mean, then adds the shift."""
        inputs = args[0]
        linear = isinstance(layer, nn.Linear)
        features = inputs if linear else inputs.movedim(1, -1)
        self._mean = features.flatten(0, -2).mean(dim=0)
        if self._shift is None:
            return args
        self._learnt = self._shift.detach().requires_grad_(True)
        shifted = features + self._learnt
        return (shifted if linear else shifted.movedim(-1, 1), *args[1:])

    def backward(self, loss: Tensor) -> None:
        """Compute gradients of loss and term, then update the shift in place by one step of plain SGD."""
        if self._mean is not None and self._towards is not None and self._pull > 0.0:
            loss = loss + self._pull * (self._mean - self._towards).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._learnt is not None and self._learnt.grad is not None:
            self._shift.sub_(self._learnt.grad, alpha=self._rate)


@contextmanager
def head_term(model: FlatModel, objective: Objective, rate: float) -> Iterator[HeadTerm]:
    """Apply the term to forward passes inside the context. rate: the shift's step size; 0 leaves it unchanged."""
    term = HeadTerm(objective, rate)
    if objective.head_shift is None and objective.feature_mean is None:
        yield term
        return
    handle = head_layer(model)[1].register_forward_pre_hook(term.on_inputs)
    try:
        yield term
    finally:
        handle.remove()
