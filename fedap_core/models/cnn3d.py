"""A small convolutional network with batch normalisation for volumes of at least 16 x 16 x 16 voxels.

Defines only the architecture; independent of data sets, training and federation.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from fedap_core.models.request import ModelRequest

_CHANNELS = (8, 16, 32)
_MIN_SIDE = 16
"""Three pools reduce 16 to 2, so that each half of an axis has its own voxel."""


class Cnn3d(nn.Module):
    """(n, C, D, H, W) -> logits (n, classes): three of [conv 3x3x3, BN, ReLU, max-pool 2], the mean over each half of
    every axis, and a linear layer."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        least = (1, _MIN_SIDE, _MIN_SIDE, _MIN_SIDE)
        request.expect_axes("cnn3d", "(channels, depth, height, width)", minimum=least)
        sizes = (request.input_shape[0], *_CHANNELS)
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            convolution = nn.Conv3d(inputs, outputs, 3, padding=1)
            layers += [convolution, nn.BatchNorm3d(outputs), nn.ReLU(), nn.MaxPool3d(2)]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool3d(2))
        self.head = nn.Linear(sizes[-1] * 8, request.classes)

    def forward(self, volumes: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.flatten(self.features(volumes), 1))
        return logits
