"""Load the 2-D single-label sets of MedMNIST by their flags, with the three official splits pooled.

URLs, MD5s and class names come from the installed `medmnist` package, whose table is read as data: importing the
package would take seconds (pandas, scikit-learn) and create a folder in the user's home. Images stay uint8.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedap_core.errors import InvalidInput, missing_library
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data.archive import AnyArray, Archive, read_archive
from participant.data.base import DataOptions, Dataset, DataSource
from participant.data.download import PublishedFile, provide

FLAGS = (
    "bloodmnist",
    "breastmnist",
    "dermamnist",
    "octmnist",
    "organamnist",
    "organcmnist",
    "organsmnist",
    "pathmnist",
    "pneumoniamnist",
    "retinamnist",
    "tissuemnist",
)
SIZES = (28, 64, 128, 224)
_FIX = "pip install 'medmnist>=3.0'"
_SPLITS = ("train", "val", "test")
_REFUSED = {
    "chestmnist": "it is multi-label (14 findings per image) and the models here predict one class",
    **dict.fromkeys(
        ("adrenalmnist3d", "fracturemnist3d", "nodulemnist3d", "organmnist3d", "synapsemnist3d", "vesselmnist3d"),
        "it is 3-D and the models here take 2-D images",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """The publisher's data about one set at one size."""

    file: PublishedFile
    channels: int
    classes: tuple[str, ...]


def refuse_unsupported(name: str) -> None:
    """Raise for a MedMNIST set that exists but cannot be used here, with the reason."""
    if name in _REFUSED:
        raise InvalidInput("data", name, f"another MedMNIST set: {_REFUSED[name]}", f"Usable: {', '.join(FLAGS)}.")


def source(flag: str) -> DataSource:
    """Return the source of one flag, for the table of sources."""
    return functools.partial(load, flag)


def load(flag: str, options: DataOptions) -> Dataset:
    """Load (n, 1 or 3, size, size) uint8; train, validation and test pooled in that order. Option: size (28)."""
    refuse_unsupported(flag)
    options.require_known(flag, ("size",))
    size = options.integer("size", 28, minimum=min(SIZES))
    if size not in SIZES:
        raise InvalidInput("data option 'size'", str(size), f"one of {', '.join(map(str, SIZES))}")
    published = lookup(flag, size)
    path = provide(published.file, options.folder, download=options.download)
    archive = read_archive(path, fix="Delete it: it will be downloaded again.")
    return assemble(flag, archive, published, size)


def assemble(flag: str, archive: Archive, published: Published, size: int) -> Dataset:
    """Build the set from its archive of `{train,val,test}_images` and `{train,val,test}_labels`."""
    tail = (size, size) if published.channels == 1 else (size, size, published.channels)
    images: list[AnyArray] = []
    labels = []
    for split in _SPLITS:
        images.append(archive.array(f"{split}_images", shape=(None, *tail)))
        labels.append(archive.integers(f"{split}_labels", shape=(len(images[-1]), 1))[:, 0])
        if images[-1].dtype != np.uint8:
            raise InvalidInput(f"{archive.path}: {split}_images", f"dtype {images[-1].dtype}", "uint8")
    pooled = np.concatenate(images)
    x = pooled[:, None] if published.channels == 1 else np.moveaxis(pooled, -1, 1)
    return Dataset(
        name=flag,
        x=np.ascontiguousarray(x).astype(np.uint8, copy=False),
        y=np.concatenate(labels),
        classes=published.classes,
        group=np.arange(len(x), dtype=np.int64),
        preprocessing=IMAGE_8BIT,
    )


def lookup(flag: str, size: int) -> Published:
    """Look up URL, MD5, channels and class names in medmnist's own table, a literal that is parsed, not executed."""
    suffix = "" if size == 28 else f"_{size}"
    try:
        entry = _info()[flag]
        names = entry["label"]
        return Published(
            file=PublishedFile(name=f"{flag}{suffix}.npz", url=entry[f"url{suffix}"], md5=entry[f"MD5{suffix}"]),
            channels=entry["n_channels"],
            classes=tuple(names[str(number)] for number in range(len(names))),
        )
    except KeyError as error:
        raise InvalidInput("package medmnist", f"no entry {error} for {flag}", "medmnist 3.0 or newer", _FIX) from error


@functools.cache
def _info() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("medmnist")
    if spec is None:
        raise missing_library("medmnist")
    for folder in spec.submodule_search_locations or ():
        text = (Path(folder) / "info.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INFO":
                table: dict[str, dict[str, Any]] = ast.literal_eval(node.value)
                return table
    raise InvalidInput("package medmnist", "no table of sets", "medmnist 3.0 or newer", _FIX)
