"""Decide which entries of a model's state belong to batch-norm layers, to the head, or to the body.

By module type and tensor identity, never by name: a name match misses the BN layers of most common networks. Strategies
decide which part stays local.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part

BatchNorm = _BatchNorm
"""BatchNorm1d/2d/3d, SyncBatchNorm and every subclass; GroupNorm, LayerNorm and InstanceNorm are other types."""


def batch_norm_layers(model: nn.Module) -> tuple[tuple[str, BatchNorm], ...]:
    """Return every BN layer once, with its first name, in registration order."""
    return tuple((name, module) for name, module in model.named_modules() if isinstance(module, BatchNorm))


def require_batch_norm(model: nn.Module, algorithm: str) -> None:
    """Refuse an algorithm that needs BN layers for a model without any: it would silently be another algorithm."""
    if not batch_norm_layers(model):
        raise InvalidInput(
            "model", type(model).__name__, f"a model with batch-norm layers ({algorithm} keeps or measures them)",
            "Add BN layers, or use fedavg, fedprox, fedper or base.",
        )  # fmt: skip


def part_of_entries(model: nn.Module, head: Iterable[str]) -> dict[str, Part]:
    """Return the part of every state_dict entry. `head` names modules; everything below them is head.

    Tied tensors have one part under all of their names: BN before head before body, because a tensor that stays local
    under one name must not be sent under another.
    """
    owners = dict.fromkeys(head, Part.HEAD)
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in owners:
        if name not in modules:
            raise InvalidInput("head", name, f"a module of the model: {', '.join(n for n in modules if n)}")
    owners |= {name: Part.BATCH_NORM for name, module in modules.items() if isinstance(module, BatchNorm)}

    state = model.state_dict(keep_vars=True)
    parts = {entry: _owner(entry, owners) for entry in state}
    strongest: dict[int, Part] = {}
    for entry, tensor in state.items():
        strongest[id(tensor)] = max(parts[entry], strongest.get(id(tensor), Part.BODY))
    return {entry: strongest[id(tensor)] for entry, tensor in state.items()}


def _owner(entry: str, owners: dict[str, Part]) -> Part:
    """Return the strongest part among the modules on the path to an entry; "" is the model itself."""
    path = entry.split(".")
    prefixes = [".".join(path[:depth]) for depth in range(len(path))]
    return max((owners[prefix] for prefix in prefixes if prefix in owners), default=Part.BODY)


def entry_aliases(model: nn.Module) -> dict[str, str]:
    """Map every state entry to the first entry with the same tensor (itself, unless the tensor is tied)."""
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = model.state_dict(keep_vars=True)
    return {entry: first.setdefault(id(tensor), entry) for entry, tensor in tensors.items()}
