"""Load local data: one file per source, one table of their names, one function that loads any of them.

Users' own data need no entry in the table: they are given as a path or as `package.module:factory`.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedap_core.errors import InvalidInput, unknown_name
from participant.data import (
    chest,
    covid,
    csv_file,
    dicom,
    factory,
    folder,
    har,
    medmnist_sets,
    nifti,
    npz,
    pamap2,
    synthetic,
    watch,
)
from participant.data.base import DataOptions, Dataset, DataSource, FileFormat, NewSamples
from participant.data.files import folder_format, format_of
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


FOLDERS = {
    "images": FileFormat(folder.load, folder.load_new),
    "dicom": FileFormat(dicom.load, dicom.load_new),
    "nifti": FileFormat(nifti.load, nifti.load_new),
}
"""Sources of folders, by the format of their files."""

KINDS = (*SOURCES, "a path to .npz, .csv or a folder", "package.module:factory")


def load_dataset(name: str, options: DataOptions | None = None) -> Dataset:
    """Load a data set by known name, path (.npz, .csv, folder) or `package.module:factory`."""
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
        return FOLDERS[folder_format(path, given)].load(path, given)
    if ":" in name:
        return factory.load(name, given)
    if os.sep in name:
        raise InvalidInput("data", name, "an .npz file, a .csv file or an existing folder")
    raise unknown_name("data", name, KINDS)


def load_new(name: str, options: DataOptions | None = None) -> NewSamples:
    """Load samples to predict: any data set, or the user's own files without labels, or a single file."""
    given = options or DataOptions()
    path = Path(name).expanduser()
    if path.suffix == ".npz":
        return npz.load_new(path, given)
    if path.suffix == ".csv":
        return csv_file.load_new(path, given)
    if name not in SOURCES and path.is_dir():
        return FOLDERS[folder_format(path, given)].load_new(path, given)
    if path.is_file() and (kind := format_of(path)) is not None:
        return FOLDERS[kind].load_new(path, given)
    data = load_dataset(name, given)
    return NewSamples(x=data.x, names=tuple(map(str, range(1, len(data) + 1))), preprocessing=data.preprocessing)


__all__ = [
    "SOURCES",
    "DataOptions",
    "DataSource",
    "Dataset",
    "NewSamples",
    "Shard",
    "Split",
    "load_dataset",
    "load_new",
    "read_shard",
    "save_npz",
]
