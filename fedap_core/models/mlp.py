"""A small perceptron with batch normalisation for tables: inputs of any shape, flattened.

Defines only the architecture; independent of data sets, training and federation.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from fedap_core.models.request import ModelRequest

_HIDDEN = (64, 32)


class Mlp(nn.Module):
    """(n, ...) -> logits (n, classes): two of [linear, BN, ReLU], then a linear layer."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        sizes = (math.prod(request.input_shape), *_HIDDEN)
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], request.classes)

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(torch.flatten(rows, 1)))
        return logits
