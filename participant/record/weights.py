"""Load pre-trained weights as the start of a federation: safetensors, or a file of torch.save, read as tensors only.
Decides which of a file's tensors a model takes: the head may be for other classes, everything else must fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.parts import Part

_NESTED = ("state_dict", "model_state_dict", "model")
_WRAPPED = "module."
"""The prefix that torch's DataParallel adds to every name."""


def with_weights(spec: ModelSpec, fresh: State, path: Path) -> tuple[State, tuple[str, ...]]:
    """Return the file's values, and the names of the head's tensors that keep their fresh values because the file's do
    not fit."""
    given = _read(path)
    state, kept = dict(fresh), []
    for tensor in spec.tensors:
        found = given.pop(tensor.name, None)
        fits = found is not None and tuple(found.shape) == tensor.shape
        if not fits and tensor.part is Part.HEAD:
            kept.append(tensor.name)
        elif not fits and tensor.floating:
            got = "missing" if found is None else f"shape {tuple(found.shape)}"
            fix = "Is it a file of another model?"
            raise InvalidInput(f"{path}: {tensor.name}", got, f"shape {tensor.shape}", fix)
        elif fits and found is not None:
            if not torch.isfinite(found).all():
                raise InvalidInput(f"{path}: {tensor.name}", "NaN or infinity", "finite values")
            state[tensor.name] = found.to(fresh[tensor.name].dtype).contiguous()
    if given:
        raise InvalidInput(str(path), f"a tensor {min(given)}", f"only tensors of {spec.model}")
    return state, tuple(kept)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InvalidInput("weights", str(path), "an existing .safetensors, .pt or .pth file")
    try:
        if path.suffix == ".safetensors":
            found: object = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, ValueError, RuntimeError, EOFError, KeyError) as error:
        raise InvalidInput("weights", str(path), "an intact file of weights", type(error).__name__) from error
    except Exception as error:  # the restricted unpickler's own error: something is not a tensor
        fix = "Save it again with torch.save(model.state_dict(), ...), or as safetensors."
        raise InvalidInput("weights", str(path), "tensors only", fix) from error
    for name in _NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InvalidInput("weights", str(path), "a state_dict: names and tensors")
    return {str(name).removeprefix(_WRAPPED): value for name, value in found.items()}
