"""Builds the drill's model: of a requested size in bytes, cheap to train, with one batch-norm layer.

`scripts.drill.model:wide_BYTES` is a factory for every number of bytes: the size of the payload matters here, not what
is learnt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from torch import nn

from fedap_core.models.request import ModelRequest

_NAME = re.compile(r"wide_([1-9][0-9]*)")
_VALUE_BYTES = 4


def wide(request: ModelRequest, *, size_bytes: int) -> nn.Module:
    """Build a perceptron whose middle layer is a square matrix of about `size_bytes`."""
    inputs = math.prod(request.input_shape)
    hidden = max(4, math.isqrt(size_bytes // _VALUE_BYTES))
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, request.classes),
    )


def model_name(size_bytes: int) -> str:
    """Return the factory name of a model of that size."""
    return f"{__name__}:wide_{size_bytes}"


def __getattr__(name: str) -> Callable[[ModelRequest], nn.Module]:
    """Return the factory of that name."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise AttributeError(name)
    size_bytes = int(found[1])
    return lambda request: wide(request, size_bytes=size_bytes)
