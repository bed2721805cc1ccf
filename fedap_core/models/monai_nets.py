"""Build MONAI's classifiers by name, for images and volumes: `monai:densenet121`. MONAI is an optional extra.

Decides the arguments of each network; weights are always drawn, never loaded. Only networks with batch norm are listed,
and each is checked for it, because MONAI's defaults differ from ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.models.request import MONAI, ModelRequest
from fedap_core.nn.batchnorm import batch_norm_layers

_DENSENETS = {"densenet121": "DenseNet121", "densenet169": "DenseNet169", "densenet201": "DenseNet201"}
_RESNETS = ("resnet10", "resnet18", "resnet34", "resnet50")
_SE_RESNETS = {"seresnet50": "SEResNet50", "seresnet101": "SEResNet101"}
_EFFICIENTNETS = ("efficientnet-b0", "efficientnet-b1", "efficientnet-b2", "efficientnet-b3")

NETS = (*_DENSENETS, *_RESNETS, *_SE_RESNETS, *_EFFICIENTNETS)
_SPATIAL = (2, 3)


def build(name: str, request: ModelRequest) -> nn.Module:
    """Build the network `monai:...` for (C, H, W) or (C, D, H, W)."""
    short = name.removeprefix(MONAI)
    if short not in NETS:
        raise unknown_name("model", name, [f"{MONAI}{known}" for known in NETS])
    dims = len(request.input_shape) - 1
    if dims not in _SPATIAL:
        raise InvalidInput("model.input_shape", request.input_shape, f"images or volumes for {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from libraries that MONAI imports
        import monai.networks.nets as nets

        model = _made(nets, short, dims, request)
    if not batch_norm_layers(model):
        raise InvalidInput("model", name, "a network with batch-norm layers", "Choose another one.")
    return model


def _made(nets: Any, short: str, dims: int, request: ModelRequest) -> nn.Module:  # noqa: ANN401 - MONAI has no types
    channels, classes = request.input_shape[0], request.classes
    make: Callable[..., nn.Module]
    if short in _DENSENETS:
        make = getattr(nets, _DENSENETS[short])
        return make(spatial_dims=dims, in_channels=channels, out_channels=classes, norm="batch")
    if short in _RESNETS:
        make = getattr(nets, short)
        return make(spatial_dims=dims, n_input_channels=channels, num_classes=classes, norm="batch")
    if short in _SE_RESNETS:
        make = getattr(nets, _SE_RESNETS[short])
        return make(spatial_dims=dims, in_channels=channels, num_classes=classes)
    make = nets.EfficientNetBN
    return make(short, pretrained=False, spatial_dims=dims, in_channels=channels, num_classes=classes)
