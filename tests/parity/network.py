"""The network of the tiny federation: convolution, BN 2d, hidden layer, BN 1d, head.

Smooth everywhere. Where a ReLU or a maximum switches over, two computations that differ in the last bit part for good,
and only a loose tolerance could call them equal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SmoothNet(nn.Module):
    """Samples are (1, 6, 6), classes three."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.hidden = nn.Linear(12, 8)
        self.scale = nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """What enters the head."""
        pooled = F.avg_pool2d(torch.tanh(self.norm(self.conv(x))), 2).flatten(1)
        return torch.tanh(self.scale(self.hidden(pooled)))


def make_smooth(request: object) -> nn.Module:
    """The factory behind `tests.parity.network:make_smooth`."""
    return SmoothNet()
