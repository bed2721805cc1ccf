"""Test models: the shapes in which batch norm occurs in common networks and in users' own, each as small as it can be.

Every specimen states what must be found in it: its BN layers and its head. No claim is checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = 3

torch.set_num_threads(1)  # as the plan's default; on tensors this small a second thread only waits for a busy core


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """How to build a model, what one sample looks like, and the truth about its BN layers (in order) and head."""

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    bn: tuple[str, ...]
    head: str

    def make(self, seed: int = 0) -> nn.Module:
        """The model, with weights that depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.build()


def draw(*shape: int, seed: int = 0, scale: float = 1.0, offset: float = 0.0) -> Tensor:
    """Normal numbers of one seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale + offset


def draw_labels(count: int, *, classes: int = CLASSES, seed: int = 0) -> Tensor:
    """Class numbers of one seed."""
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(seed))


class Residual(nn.Module):
    """A residual block whose shortcut has a BN layer without a telling name, as ResNet's has."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(x)))
        shortcut: Tensor = self.downsample(x)
        return F.relu(self.bn2(self.conv2(hidden)) + shortcut)


class ResNetLike(nn.Module):
    """Registers its head first: registration order says nothing about execution."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, CLASSES)
        self.layer1 = nn.Sequential(Residual(1, 4), Residual(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.layer1(x).mean(dim=(2, 3)))
        return logits


class DenseNetLike(nn.Module):
    """BN before convolutions, outputs concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ModuleDict({"conv0": nn.Conv2d(1, 3, 3, padding=1), "norm0": nn.BatchNorm2d(3)})
        self.block = nn.ModuleList(
            nn.ModuleDict({"norm": nn.BatchNorm2d(width), "conv": nn.Conv2d(width, 2, 3, padding=1)})
            for width in (3, 5)
        )
        self.last = nn.BatchNorm2d(7)
        self.classifier = nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        grown = self.features["norm0"](self.features["conv0"](x))
        for layer in self.block:
            parts = dict(layer.named_children())
            grown = torch.cat((grown, parts["conv"](F.relu(parts["norm"](grown)))), dim=1)
        logits: Tensor = self.classifier(F.relu(self.last(grown)).mean(dim=(2, 3)))
        return logits


class MobileNetLike(nn.Module):
    """Depthwise convolution, and a 1x1 convolution as the head."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.BatchNorm2d(2), nn.ReLU6())
        self.expand = nn.Sequential(nn.Conv2d(2, 5, 1), nn.BatchNorm2d(5), nn.ReLU6())
        self.classifier = nn.Conv2d(5, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.expand(self.depthwise(x)))
        return logits.mean(dim=(2, 3))


class Misnamed(nn.Module):
    """Names that lie: a Linear called `bn`, a BN layer called `conv`, a head called `stem`."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.Linear(4, 5)
        self.conv = nn.BatchNorm1d(5)
        self.stem = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.stem(F.relu(self.conv(self.bn(x))))
        return logits


class CountingBatchNorm(nn.BatchNorm2d):
    """A user's own BN layer with one buffer more."""

    seen: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.register_buffer("seen", torch.zeros(channels))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the layer it extends
        return super().forward(input)


class Tied(nn.Module):
    """An autoencoder-like pair of layers with one weight, and one BN layer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.again = self.norm
        self.fc = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.again(self.second(F.relu(self.norm(self.first(x))))))
        return logits


class Unreached(nn.Module):
    """A BN layer that no forward pass executes."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.BatchNorm1d(4)
        self.spare = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.used(x))
        return logits


class ByKeyword(nn.Module):
    """Calls its layers by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(input=self.norm(input=x))
        return logits


class TinyNet(nn.Module):
    """The model of the tiny federations: a convolution, BN 2d, a hidden layer, BN 1d, a head. Samples are (1, 6, 6)."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.hidden = nn.Linear(12, 8)
        self.scale = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        features = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1)
        logits: Tensor = self.fc(self.drop(F.relu(self.scale(self.hidden(features)))))
        return logits


TINY_SHAPE = (1, 6, 6)


class WideNet(nn.Module):
    """Few steps, many values: 10.7 MB, so that the model travels in three slices. Samples are (1, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(36, 1600)
        self.scale = nn.BatchNorm1d(1600)
        self.wide = nn.Linear(1600, 1630)
        self.fc = nn.Linear(1630, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        features = F.max_pool2d(F.relu(self.norm(self.conv(x))), 4).flatten(1)
        logits: Tensor = self.fc(F.relu(self.wide(F.relu(self.scale(self.hidden(features))))))
        return logits


def make_wide(request: object) -> nn.Module:
    """The factory behind `tests.support.models:make_wide`."""
    return WideNet()


def make_tiny(request: object) -> nn.Module:
    """The factory behind `tests.support.models:make_tiny`."""
    return TinyNet()


def make_tied(request: object) -> nn.Module:
    """The factory behind `tests.support.models:make_tied`."""
    return Tied()


def _vgg() -> nn.Module:
    features = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
    )
    classifier = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, CLASSES))
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)


def _volume() -> nn.Module:
    return nn.Sequential(nn.BatchNorm3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2, CLASSES))


def _signal() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 3))


def _other_norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, CLASSES),
    )  # fmt: skip


def _one_norm(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))


def _untracked() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, CLASSES))


_IMAGE = (1, 6, 6)
_RESNET_BN = tuple(f"layer1.{block}.{name}" for block in (0, 1) for name in ("bn1", "bn2", "downsample.1"))

ZOO: dict[str, Specimen] = {
    "resnet": Specimen(build=ResNetLike, input_shape=_IMAGE, bn=_RESNET_BN, head="fc"),
    "vgg": Specimen(build=_vgg, input_shape=_IMAGE, bn=("0.1", "0.4"), head="3.3"),
    "densenet": Specimen(
        build=DenseNetLike, input_shape=_IMAGE, bn=("features.norm0", "block.0.norm", "block.1.norm", "last"),
        head="classifier",
    ),
    "mobilenet": Specimen(
        build=MobileNetLike, input_shape=(2, 6, 6), bn=("depthwise.1", "expand.1"), head="classifier"
    ),
    "misnamed": Specimen(build=Misnamed, input_shape=(4,), bn=("conv",), head="stem"),
    "signal": Specimen(build=_signal, input_shape=(2, 9), bn=("1",), head="4"),
    "volume": Specimen(build=_volume, input_shape=(2, 3, 4, 5), bn=("0",), head="3"),
    "other-norms": Specimen(build=_other_norms, input_shape=_IMAGE, bn=("3",), head="7"),
    "sync": Specimen(build=lambda: _one_norm(nn.SyncBatchNorm(3)), input_shape=_IMAGE, bn=("1",), head="5"),
    "subclass": Specimen(build=lambda: _one_norm(CountingBatchNorm(3)), input_shape=_IMAGE, bn=("1",), head="5"),
    "cumulative": Specimen(
        build=lambda: _one_norm(nn.BatchNorm2d(3, momentum=None)), input_shape=_IMAGE, bn=("1",), head="5"
    ),
    "no-affine": Specimen(
        build=lambda: _one_norm(nn.BatchNorm2d(3, affine=False)), input_shape=_IMAGE, bn=("1",), head="5"
    ),
    "untracked": Specimen(build=_untracked, input_shape=(4,), bn=("1",), head="2"),
    "tied": Specimen(build=Tied, input_shape=(4,), bn=("norm",), head="fc"),
    "tiny": Specimen(build=TinyNet, input_shape=TINY_SHAPE, bn=("norm", "scale"), head="fc"),
}  # fmt: skip
