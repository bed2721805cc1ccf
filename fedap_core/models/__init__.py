"""Which models exist, and how one is built from a name and a seed.

`monai:NAME` is one of MONAI's; a user's own model is `package.module:factory`, a callable that takes a `ModelRequest`.
Nothing here knows training, federation or data sets; the weights depend on (name, request, seed) alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.factories import find_factory, users_code
from fedap_core.models import monai_nets
from fedap_core.models.alexnet import AlexNet
from fedap_core.models.cnn3d import Cnn3d
from fedap_core.models.har_cnn import HarCnn
from fedap_core.models.lenet import LeNet5
from fedap_core.models.mlp import Mlp
from fedap_core.models.request import ModelRequest

ModelFactory = Callable[[ModelRequest], nn.Module]

MODELS: dict[str, ModelFactory] = {
    "lenet5": LeNet5,
    "har-cnn": HarCnn,
    "alexnet": AlexNet,
    "mlp": Mlp,
    "cnn3d": Cnn3d,
}


def build_model(name: str, request: ModelRequest, seed: int) -> nn.Module:
    """The model `name` on the CPU with weights drawn from `seed`; the global random state is left as it was."""
    factory = _find_factory(name)
    with torch.random.fork_rng(devices=[]):
        # Only the CPU generator is forked, so only it may be seeded: torch.manual_seed would reach the GPUs too.
        torch.default_generator.manual_seed(seed)
        model = _made_by(factory, name, request)
    if not isinstance(model, nn.Module):
        raise InvalidInput("model", name, f"a factory that returns a torch.nn.Module, not {type(model).__name__}")
    return model


def _made_by(factory: ModelFactory, name: str, request: ModelRequest) -> nn.Module:
    """What a factory makes; what one of the user's own raises is wrong input, not a fault."""
    if name in MODELS or name.startswith(monai_nets.PREFIX):
        return factory(request)
    with users_code("model", name, "a function that takes a ModelRequest and returns a module"):
        return factory(request)


def _find_factory(name: str) -> ModelFactory:
    if name in MODELS:
        return MODELS[name]
    if name.startswith(monai_nets.PREFIX):
        return partial(monai_nets.build, name)
    if ":" not in name:
        raise unknown_name("model", name, [*MODELS, "monai:NAME", "package.module:factory"])
    return find_factory("model", name)


__all__ = ["MODELS", "ModelFactory", "ModelRequest", "build_model"]
