"""Local data: one file per source, one table of their names, one function that loads any of them.

Users' own data need no entry here: a path to an .npz, a .csv or an image folder, or `package.module:factory`.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedap_core.errors import InvalidInput, unknown_name
from participant.data import (
    chest,
    covid,
    csv_file,
    factory,
    folder,
    har,
    medmnist_sets,
    npz,
    pamap2,
    synthetic,
    watch,
)
from participant.data.base import DataOptions, Dataset, DataSource
from participant.data.shard import Shard, Split, read_shard, save_npz

SOURCES: dict[str, DataSource] = {
    "chest": chest.load,
    "covid": covid.load,
    "har": har.load,
    "pamap2": pamap2.load,
    "synthetic": synthetic.load,
    "watch": watch.load,
    **{flag: medmnist_sets.source(flag) for flag in medmnist_sets.FLAGS},
}


KINDS = (*SOURCES, "a path to .npz, .csv or an image folder", "package.module:factory")


def load_dataset(name: str, options: DataOptions | None = None) -> Dataset:
    """The data set of a known name, of a path (.npz, .csv, image folder) or of `package.module:factory`."""
    if not name:
        raise unknown_name("data", name, KINDS)
    given = options or DataOptions()
    medmnist_sets.refuse_unsupported(name)
    if name in SOURCES:
        return SOURCES[name](given)
    path = Path(name).expanduser()
    if path.suffix == ".npz":
        return npz.load(path, given)
    if path.suffix == ".csv":
        return csv_file.load(path, given)
    if path.is_dir():
        return folder.load(path, given)
    if ":" in name:
        return factory.load(name, given)
    if os.sep in name:
        raise InvalidInput("data", name, "an .npz file, a .csv file or an existing folder of images")
    raise unknown_name("data", name, KINDS)


__all__ = [
    "SOURCES",
    "DataOptions",
    "DataSource",
    "Dataset",
    "Shard",
    "Split",
    "load_dataset",
    "read_shard",
    "save_npz",
]
