"""Stores what a client keeps beside the model it hands over, in a file next to the round's personal models.

Only clients whose algorithm keeps something have such a file. It also holds the shared model; together they are all
that the next round depends on.
"""

from __future__ import annotations

from pathlib import Path

from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.record.model_file import read_model, write_model
from scripts.run.cohort import model_file_name

_KEPT = "kept/"


def write_kept(folder: Path, client: str, spec: ModelSpec, shared: State, kept: State) -> None:
    """Write a client's file. shared: the model that is exchanged; kept: by name."""
    path = folder / "kept" / model_file_name(client)
    write_model(path, spec, shared | {_KEPT + name: tensor for name, tensor in kept.items()})


def read_kept(folder: Path, client: str) -> tuple[State, State]:
    """Return the shared model and what is kept; without such a file, the personal model and nothing."""
    path = folder / "kept" / model_file_name(client)
    _, tensors, _ = read_model(path if path.is_file() else folder / model_file_name(client))
    kept = {name.removeprefix(_KEPT): tensor for name, tensor in tensors.items() if name.startswith(_KEPT)}
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(_KEPT)}, kept
