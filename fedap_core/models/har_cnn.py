"""The two-layer CNN for body-worn sensors (PAMAP2 in the paper), for any channels and windows of at least 28 steps.

Defines only the architecture; independent of data sets, training and federation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.models.request import ModelRequest
from fedap_core.nn.layers import conv_bn_pool

_KERNEL = (1, 9)
_POOL = (1, 2)
_MIN_STEPS = 28
"""28 - 8 = 20, pooled 10, 10 - 8 = 2, pooled 1: one step is left for the classifier; 27 would leave none."""


def _steps_after_features(steps: int) -> int:
    for _ in range(2):
        steps = (steps - _KERNEL[1] + 1) // _POOL[1]
    return steps


class HarCnn(nn.Module):
    """(n, C, T) -> logits (n, classes): two of [conv 1x9, BN, ReLU, max-pool 1x2], then two linear layers."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        request.expect_axes("har-cnn", "(channels, time steps)", minimum=(1, _MIN_STEPS))
        channels, steps = request.input_shape
        self.conv1 = nn.Conv2d(channels, 16, _KERNEL)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, _KERNEL)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * _steps_after_features(steps), 64)
        self.fc2 = nn.Linear(64, request.classes)

    def forward(self, windows: Tensor) -> Tensor:
        hidden = windows.unsqueeze(2)
        hidden = conv_bn_pool(self.conv1, self.bn1, hidden, _POOL)
        hidden = conv_bn_pool(self.conv2, self.bn2, hidden, _POOL)
        logits: Tensor = self.fc2(F.relu(self.fc1(torch.flatten(hidden, 1))))
        return logits
