"""The description in an initial model file: tensors and their parts, head, classes, input, preprocessing, seed.

Pure: takes text, returns a description. Both sides agree on a federation by its digests; the coordinator takes every
shape from this description and never from a peer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part, TensorSpec, shared_tensors
from fedap_core.preprocessing import Preprocessing

METADATA_KEY = "fedap-model"
FORMAT = 1
"""Incremented when a field changes its meaning; files of another format are refused."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Everything two parties must agree on before their weights may be averaged."""

    model: str
    tensors: tuple[TensorSpec, ...]
    head: tuple[str, ...]
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    preprocessing: Preprocessing
    seed: int

    def __post_init__(self) -> None:
        for field, values, kind in (
            ("model", (self.model,), str),
            ("head", self.head, str),
            ("classes", self.classes, str),
            ("input_shape", self.input_shape, int),
            ("seed", (self.seed,), int),
        ):
            if not all(isinstance(value, kind) for value in values):
                raise InvalidInput(field, values, "text" if kind is str else "whole numbers")
        if len(self.classes) < 2:
            raise InvalidInput("classes", self.classes, "at least two class names")
        if not self.head:
            raise InvalidInput("head", "no module", "the name of the classification layer")
        if len({tensor.name for tensor in self.tensors}) != len(self.tensors):
            raise InvalidInput("tensors", "a name twice", "every tensor once")

    def shared(self, home: Collection[Part]) -> tuple[TensorSpec, ...]:
        """Return the tensors that are sent if the parts `home` stay local, in wire order."""
        return shared_tensors(self.tensors, home)

    @property
    def variances(self) -> frozenset[str]:
        """Names of the tensors that hold running variances."""
        return frozenset(tensor.name for tensor in self.tensors if tensor.is_variance)

    @property
    def features(self) -> int:
        """Number of inputs of the classification layer; 0 if it has no weight matrix."""
        head = self.head[-1]
        own = [one for one in self.tensors if one.name.rpartition(".")[0] == head and len(one.shape) > 1]
        return own[0].shape[1] if own else 0

    def to_metadata(self, notes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return description and notes as safetensors metadata: one key, so that equal models give equal bytes."""
        described = {
            "format": FORMAT,
            "model": self.model,
            "tensors": [[t.name, list(t.shape), t.part.name, t.trainable, t.floating] for t in self.tensors],
            "head": self.head,
            "classes": self.classes,
            "input_shape": self.input_shape,
            "preprocessing": self.preprocessing.to_list(),
            "seed": self.seed,
            "notes": dict(notes or {}),
        }
        return {METADATA_KEY: json.dumps(described)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], *, source: str) -> ModelSpec:
        """Read the description from a file's metadata; `source` names the file in errors."""
        if METADATA_KEY not in metadata:
            raise InvalidInput(source, "no model description", "a file written by `fedap-participant init`")
        try:
            described = json.loads(metadata[METADATA_KEY])
            if described["format"] != FORMAT:
                raise InvalidInput(source, f"format {described['format']}", f"format {FORMAT}", "Write it anew.")
            if not isinstance(described["notes"], dict):
                raise TypeError("notes that are no mapping")
            return cls(
                model=described["model"],
                tensors=tuple(_tensor(*fields) for fields in described["tensors"]),
                head=tuple(described["head"]),
                classes=tuple(described["classes"]),
                input_shape=tuple(described["input_shape"]),
                preprocessing=Preprocessing.from_list(described["preprocessing"]),
                seed=described["seed"],
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                source, f"a broken description ({error})", "a file of `fedap-participant init`"
            ) from error


def notes_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the notes in a file that `from_metadata` accepts: round, provenance, metrics."""
    return dict(json.loads(metadata[METADATA_KEY])["notes"])


def _tensor(name: str, shape: list[int], part: str, trainable: bool, floating: bool) -> TensorSpec:
    return TensorSpec(name=name, shape=tuple(shape), part=Part[part], trainable=trainable, floating=floating)
