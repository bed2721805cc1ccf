"""A model of one's own: any torch module with batch norm, made by a function that is told input shape and classes."""

from __future__ import annotations

from torch import nn

from fedap_core.models import ModelRequest


def small(request: ModelRequest) -> nn.Module:
    """Two convolutions; the last layer is the head, which FedPer keeps at home."""
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
