"""The table of models, and how to build one from a name and a seed.

`monai:NAME` is one of MONAI's; a user's own model is `package.module:factory`, a callable that takes a `ModelRequest`.
Independent of training, federation and data sets; the weights depend only on (name, request, seed). Torch is imported
when a model is built: commands list the names without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.factories import find_factory, users_code
from fedap_core.models.request import MONAI, ModelRequest

if TYPE_CHECKING:
    from torch import nn

    ModelFactory = Callable[[ModelRequest], nn.Module]

MODELS = {
    "lenet5": "fedap_core.models.lenet:LeNet5",
    "har-cnn": "fedap_core.models.har_cnn:HarCnn",
    "alexnet": "fedap_core.models.alexnet:AlexNet",
    "mlp": "fedap_core.models.mlp:Mlp",
    "cnn3d": "fedap_core.models.cnn3d:Cnn3d",
}


def build_model(name: str, request: ModelRequest, seed: int) -> nn.Module:
    """Build the model `name` on the CPU with weights drawn from `seed`; the global random state is unchanged."""
    import torch

    factory = _find_factory(name)
    with torch.random.fork_rng(devices=[]):
        # only the CPU generator is forked, so seed only that one: torch.manual_seed would affect the GPUs too
        torch.default_generator.manual_seed(seed)
        model = _made_by(factory, name, request)
    if not isinstance(model, torch.nn.Module):
        raise InvalidInput("model", name, f"a factory that returns a torch.nn.Module, not {type(model).__name__}")
    return model


def _made_by(factory: ModelFactory, name: str, request: ModelRequest) -> nn.Module:
    """Call a factory; an exception from the user's own code is reported as invalid input."""
    if name in MODELS or name.startswith(MONAI):
        return factory(request)
    with users_code("model", name, "a function that takes a ModelRequest and returns a module"):
        return factory(request)


def _find_factory(name: str) -> ModelFactory:
    if name.startswith(MONAI):
        from fedap_core.models import monai_nets

        return partial(monai_nets.build, name)
    if name not in MODELS and ":" not in name:
        raise unknown_name("model", name, [*MODELS, f"{MONAI}NAME", "package.module:factory"])
    return find_factory("model", MODELS.get(name, name))


__all__ = ["MODELS", "ModelRequest", "build_model"]
