"""Decide which layer is the head: the last Linear or 1x1 convolution that a forward pass executes.

Execution order, unlike registration order or names, identifies the classification layer in any architecture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput

Head = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


def find_head(model: nn.Module, input_shape: tuple[int, ...]) -> str:
    """Return the name of the head, found by one forward pass of zeros in eval mode. The model is unchanged.

    Two samples: a BN layer without running statistics normalises by its batch even in eval mode, which fails for one.
    """
    executed: list[str] = []

    def note(name: str) -> None:
        executed.append(name)

    handles = [
        module.register_forward_pre_hook(lambda _module, _inputs, name=name: note(name))
        for name, module in model.named_modules()
        if is_head_like(module)
    ]
    try:
        with evaluating(model), torch.no_grad():
            model(torch.zeros((2, *input_shape), device=device_of(model)))
    finally:
        for handle in handles:
            handle.remove()
    if not executed:
        raise InvalidInput(
            "model", type(model).__name__, "a model that runs a Linear layer or a 1x1 convolution",
            "Name the classification layer with head = [...].",
        )  # fmt: skip
    return executed[-1]


def is_head_like(module: nn.Module) -> bool:
    """Whether a layer maps features to classes position by position."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        return all(size == 1 for size in module.kernel_size)
    return isinstance(module, nn.Linear)


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's tensors (CPU for a model without any)."""
    tensors: Iterator[Tensor] = iter((*model.parameters(), *model.buffers()))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Use eval mode inside the context; afterwards restore every module's mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
