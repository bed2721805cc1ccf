"""The models of this project again, in stock layers and stock order, as a researcher would write them.

Imports PyTorch and nothing of this project, so that it starts as fast as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def plain_lenet5(channels: int, classes: int) -> nn.Module:
    """For images of 28 x 28."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
    )


def plain_har_cnn(channels: int, classes: int) -> nn.Module:
    """For windows of 200 steps."""
    return nn.Sequential(
        nn.Unflatten(2, (1, 200)),
        *(nn.Conv2d(channels, 16, (1, 9)), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((1, 2))),
        *(nn.Conv2d(16, 32, (1, 9)), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((1, 2))),
        *(nn.Flatten(), nn.Linear(32 * 44, 64), nn.ReLU(), nn.Linear(64, classes)),
    )


def plain_alexnet(channels: int, classes: int) -> nn.Module:
    """For images of 64 x 64 and larger."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 64, 11, stride=4, padding=2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.BatchNorm2d(192), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.BatchNorm2d(384), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.BatchNorm2d(256), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.BatchNorm2d(256), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Linear(9216, 4096), nn.BatchNorm1d(4096), nn.ReLU()),
        *(nn.Linear(4096, 4096), nn.BatchNorm1d(4096), nn.ReLU(), nn.Linear(4096, classes)),
    )


PLAIN_MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "lenet5": plain_lenet5,
    "har-cnn": plain_har_cnn,
    "alexnet": plain_alexnet,
}
