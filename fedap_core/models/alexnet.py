"""AlexNet with batch normalisation after every convolution and hidden linear layer, for images of at least 63 x 63.

Defines only the architecture: weights are always drawn, never loaded; independent of data sets and federation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedap_core.models.request import ModelRequest

_MIN_SIDE = 63
"""63 -> 15 after the first convolution -> 7 -> 3 -> 1 after the three pools; 62 is too small for the last pool."""
_GRID = 6
_HIDDEN = 4096


def _conv(inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _linear(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]


class AlexNet(nn.Module):
    """(n, C, H, W) -> logits (n, classes): five convolutions, pooled to 6 x 6, and three linear layers."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        request.expect_axes("alexnet", "(channels, height, width)", minimum=(1, _MIN_SIDE, _MIN_SIDE))
        self.features = nn.Sequential(
            *_conv(request.input_shape[0], 64, 11, stride=4, padding=2),
            nn.MaxPool2d(3, stride=2),
            *_conv(64, 192, 5, padding=2),
            nn.MaxPool2d(3, stride=2),
            *_conv(192, 384, 3, padding=1),
            *_conv(384, 256, 3, padding=1),
            *_conv(256, 256, 3, padding=1),
            nn.MaxPool2d(3, stride=2),
            nn.AdaptiveAvgPool2d(_GRID),
        )
        self.classifier = nn.Sequential(
            *_linear(256 * _GRID * _GRID, _HIDDEN),
            *_linear(_HIDDEN, _HIDDEN),
            nn.Linear(_HIDDEN, request.classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(torch.flatten(self.features(images), 1))
        return logits
