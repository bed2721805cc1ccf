"""Your own model: any torch module with batch norm, built by a function that gets the input shape and the classes."""

from __future__ import annotations

from torch import nn

from fedap_core.models import ModelRequest


def small(request: ModelRequest) -> nn.Module:
    """Two convolutions; the last layer is the head, which FedPer keeps local."""
    channels = request.input_shape[0]
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, request.classes),
    )
