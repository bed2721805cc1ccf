"""Read and write model files: safetensors with a ModelSpec in the metadata, written atomically.

One format for the initial model, an anchor and a personalised model. Tied tensors are stored once, under their first
name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec, notes_of
from fedap_core.models import ModelRequest, build_model
from fedap_core.nn.heads import find_head
from fedap_core.nn.state import State, copy_into, describe_tensors, model_entries
from fedap_core.preprocessing import Preprocessing


def make_initial(
    model: str,
    *,
    input_shape: tuple[int, ...],
    classes: tuple[str, ...],
    preprocessing: Preprocessing,
    seed: int,
    head: tuple[str, ...] = (),
) -> tuple[ModelSpec, State]:
    """Return a newly initialised model and its description; `head` overrides the one found by a forward pass."""
    if not 0 <= seed < 2**63:
        raise InvalidInput("seed", seed, "a whole number from 0 to 2**63 - 1")
    module = build_model(model, ModelRequest(input_shape=input_shape, classes=len(classes)), seed)
    head = head or (find_head(module, input_shape),)
    spec = ModelSpec(
        model=model,
        tensors=describe_tensors(module, head),
        head=head,
        classes=classes,
        input_shape=input_shape,
        preprocessing=preprocessing,
        seed=seed,
    )
    names = {tensor.name for tensor in spec.tensors}
    return spec, {name: t.detach().clone() for name, t in model_entries(module).items() if name in names}


def module_of(spec: ModelSpec, state: State) -> nn.Module:
    """Build the described module with the given values."""
    request = ModelRequest(input_shape=spec.input_shape, classes=len(spec.classes))
    module = build_model(spec.model, request, spec.seed)
    found = describe_tensors(module, spec.head)
    if found != spec.tensors:
        raise InvalidInput("model", spec.model, "the tensors that the model file describes", "Has its code changed?")
    copy_into(module, state)
    return module


def write_model(
    path: Path, spec: ModelSpec, state: State, notes: dict[str, str] | None = None, *, private: bool = False
) -> None:
    """Write a model file atomically; `notes` are further metadata (provenance, metrics).

    private: readable only by the owner (mode 0600), because it was trained on the owner's data; else by the umask.
    """
    data = save({name: t.contiguous() for name, t in state.items()}, metadata=spec.to_metadata(notes))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink()
            raise
    except OSError as error:
        raise InvalidInput("model file", str(path), "a path that can be written", str(error)) from error


def read_spec(path: Path) -> ModelSpec:
    """Read only the description, no tensors."""
    with _opened(path) as file:
        return ModelSpec.from_metadata(file.metadata() or {}, source=str(path))


def read_notes(path: Path) -> dict[str, str]:
    """Read only the notes, no tensors."""
    with _opened(path) as file:
        metadata: dict[str, str] = dict(file.metadata() or {})
    ModelSpec.from_metadata(metadata, source=str(path))  # refuses a file without a description
    return notes_of(metadata)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise InvalidInput("model file", path, "an existing file", "Write one with `fedap-participant init`.")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise InvalidInput("model file", path, "an intact safetensors file", str(error)) from error


def read_model(path: Path) -> tuple[ModelSpec, State, dict[str, str]]:
    """Read description, tensors and notes of a model file, and check them against each other."""
    with _opened(path) as file:
        metadata: dict[str, str] = dict(file.metadata() or {})
        state: State = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    spec = ModelSpec.from_metadata(metadata, source=str(path))
    for tensor in spec.tensors:
        if tensor.name not in state or tuple(state[tensor.name].shape) != tensor.shape:
            raise InvalidInput(
                str(path), f"tensor {tensor.name} missing or of the wrong shape", f"shape {tensor.shape}"
            )
        if not torch.isfinite(state[tensor.name]).all():
            raise InvalidInput(str(path), f"tensor {tensor.name} not finite", "finite values")
    return spec, state, notes_of(metadata)
