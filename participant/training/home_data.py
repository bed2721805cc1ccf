"""A participant's samples and their split, which comes with a shard or is computed locally.

A restart gives the same split: it derives only from the run's seed and the participant's name. The data never leave
the participant; only their counts do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.samples import Samples
from fedap_core.randomness import generator
from fedap_core.splits import PROTOCOLS, cut_validation, require_samples, split_client
from participant.data import load_dataset, read_shard
from participant.data.base import DataOptions, Dataset
from participant.data.npz import as_model_file_asks
from participant.data.shard import Split

MIN_TRAIN = 2
"""Batch norm cannot train on one sample. The coordinator may require more."""

_PARTS = {2: ("train", "test"), 3: ("train", "validation", "test")}


@dataclass(frozen=True, kw_only=True)
class HomeData:
    """The data set, and the split that came with it, if any."""

    dataset: Dataset
    own_split: Split | None = None

    @classmethod
    def load(cls, source: str, options: DataOptions) -> HomeData:
        """Load any source of `participant.data`; an .npz with arrays train and test is a shard and keeps its split."""
        path = Path(source).expanduser()
        if path.suffix == ".npz" and not options.options:
            shard = read_shard(path)
            return cls(dataset=as_model_file_asks(shard.dataset, options), own_split=shard.split)
        return cls(dataset=load_dataset(source, options))

    def split(self, *, protocol: str, validation: float, seed: int, name: str) -> Mapping[str, IndexArray]:
        """Return positions by part: train, perhaps validation, test. validation: the share of the training samples held
        back if the split has no validation part; none are held back if too few would be left."""
        if self.own_split is not None:
            parts = dict(self.own_split.parts())
        else:
            data, fractions = self.dataset, PROTOCOLS[protocol]
            rng = generator(seed, purpose="split", participant=name)
            sides = split_client(data.y, data.group, data.span, fractions=fractions, rng=rng)
            parts = dict(zip(_PARTS[len(fractions)], sides, strict=True))
        if "validation" not in parts:
            parts = self._with_validation(parts, validation, generator(seed, purpose="validation", participant=name))
        require_samples(name, tuple(parts.values()), min_train=MIN_TRAIN, remedy="Add samples to the data.")
        return parts

    def _with_validation(
        self, parts: Mapping[str, IndexArray], share: float, rng: np.random.Generator
    ) -> dict[str, IndexArray]:
        data = self.dataset
        train, held = cut_validation(parts["train"], data.y, data.group, data.span, share=share, rng=rng)
        if len(held) == 0 or len(train) < MIN_TRAIN:
            return dict(parts)
        return {"train": train, "validation": held, "test": parts["test"]}

    def samples(self, positions: IndexArray) -> Samples:
        """Return the samples at these positions as tensors; consecutive ones, as in a shard, are not copied."""
        data = self.dataset
        chosen: IndexArray | slice = positions
        first, length = int(positions[0]), len(positions)
        is_run = np.array_equal(positions, np.arange(first, first + length))
        if is_run and data.x.flags.writeable and data.y.flags.writeable:  # torch has no read-only tensors
            chosen = slice(first, first + length)
        return Samples(
            x=torch.from_numpy(data.x[chosen]), y=torch.from_numpy(data.y[chosen]), preprocessing=data.preprocessing
        )

    def class_counts(self, positions: IndexArray) -> IndexArray:
        counts: IndexArray = np.bincount(self.dataset.y[positions], minlength=len(self.dataset.classes)).astype(
            np.int64
        )
        return counts

    def fitted_to(self, spec: ModelSpec) -> HomeData:
        """Return these data with the classes of the model file, some of which a hospital may lack; refuse data that do
        not match the model's description, before anything is sent."""
        data = self.dataset.with_classes(spec.classes)
        for field, got, expected in (
            ("input shape of the data", data.input_shape, spec.input_shape),
            ("preprocessing of the data", data.preprocessing, spec.preprocessing),
        ):
            if got != expected:
                raise InvalidInput(field, str(got), f"{expected}, as in the model file")
        return replace(self, dataset=data)
