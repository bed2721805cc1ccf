"""LeNet-5 with batch normalisation, for images with any number of channels and at least 16 x 16 pixels.

Defines only the architecture; independent of data sets, training and federation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.models.request import ModelRequest
from fedap_core.nn.layers import conv_bn_pool

_KERNEL = 5
_POOL = (2, 2)
_MIN_SIDE = 16
"""16 - 4 = 12, pooled 6, 6 - 4 = 2, pooled 1: one pixel is left for the classifier; 15 would leave none."""


def _side_after_features(side: int) -> int:
    for _ in range(2):
        side = (side - _KERNEL + 1) // _POOL[0]
    return side


class LeNet5(nn.Module):
    """(n, C, H, W) -> logits (n, classes): two of [conv 5x5, BN, ReLU, max-pool 2], then three linear layers."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        request.expect_axes("lenet5", "(channels, height, width)", minimum=(1, _MIN_SIDE, _MIN_SIDE))
        channels, height, width = request.input_shape
        self.conv1 = nn.Conv2d(channels, 6, _KERNEL)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, _KERNEL)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc1 = nn.Linear(16 * _side_after_features(height) * _side_after_features(width), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, request.classes)

    def forward(self, images: Tensor) -> Tensor:
        hidden = conv_bn_pool(self.conv1, self.bn1, images, _POOL)
        hidden = conv_bn_pool(self.conv2, self.bn2, hidden, _POOL)
        hidden = F.relu(self.fc1(torch.flatten(hidden, 1)))
        logits: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return logits
