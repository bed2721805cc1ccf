"""Read and write one participant's share of a data set: a lossless .npz file, with its split.

No pickle, and no half-written files. How the split was made is decided elsewhere.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from participant.data.archive import AnyArray, read_archive
from participant.data.base import Dataset
from participant.data.npz import OFFSET, RECIPE, SCALE, STEPS, dataset_of


@dataclass(frozen=True, kw_only=True)
class Split:
    """Positions of the training, test and validation samples; no position is in two parts."""

    train: IndexArray
    test: IndexArray
    validation: IndexArray | None = None

    def __post_init__(self) -> None:
        joined = np.concatenate([part for _, part in self.parts()])
        if joined.dtype != np.int64 or joined.ndim != 1:
            raise InvalidInput("split", f"{joined.dtype} {joined.shape}", "one-dimensional int64 positions")
        if len(np.unique(joined)) != len(joined):
            raise InvalidInput("split", "a sample in two parts or twice in one", "every sample at most once")

    def parts(self) -> tuple[tuple[str, IndexArray], ...]:
        """Return (name, positions) of each part present."""
        named = (("train", self.train), ("validation", self.validation), ("test", self.test))
        return tuple((name, part) for name, part in named if part is not None)

    def require_within(self, samples: int, where: str) -> None:
        for name, part in self.parts():
            if len(part) and (part.min() < 0 or part.max() >= samples):
                got = f"positions {part.min()} to {part.max()}"
                raise InvalidInput(f"{where}: {name}", got, f"0 to {samples - 1}")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One participant's data with its split, if it has one."""

    dataset: Dataset
    split: Split | None


def read_shard(path: Path) -> Shard:
    """Read the data set and, if the file has arrays train and test (and validation), its split."""
    archive = read_archive(path)
    dataset = dataset_of(archive)
    if archive.get("train") is None and archive.get("test") is None:
        return Shard(dataset=dataset, split=None)
    validation = None if archive.get("validation") is None else archive.integers("validation")
    split = Split(train=archive.integers("train"), test=archive.integers("test"), validation=validation)
    split.require_within(len(dataset), str(path))
    return Shard(dataset=dataset, split=split)


def save_npz(dataset: Dataset, path: Path, split: Split | None = None) -> None:
    """Write everything `read_shard` needs to restore an equal data set; atomic."""
    arrays: dict[str, AnyArray] = {
        "name": np.array(dataset.name),
        "x": dataset.x,
        "y": dataset.y,
        "classes": np.array(dataset.classes),
        "group": dataset.group,
        "overlapping": np.array(dataset.overlapping),
        SCALE: np.array(dataset.preprocessing.scale),
        OFFSET: np.array(dataset.preprocessing.offset),
        STEPS: np.array(dataset.preprocessing.steps, dtype=np.str_),
    }
    if dataset.preprocessing.recipe:
        arrays[RECIPE] = np.array(dataset.preprocessing.recipe)
    if dataset.span is not None:
        arrays["span"] = dataset.span
    if dataset.site is not None:
        arrays |= {"site": dataset.site, "site_names": np.array(dataset.site_names)}
    if split is not None:
        split.require_within(len(dataset), str(path))
        arrays |= dict(split.parts())
    handle, part_name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    part = Path(part_name)
    try:
        with os.fdopen(handle, "wb") as target:
            np.savez(target, allow_pickle=False, **arrays)
            target.flush()
            os.fsync(target.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
