"""Find the files of a folder, their format and the label of each; a file holds one or more samples.

A label is the sub-folder that a file is in, or a row of a .csv. The sources of each format open the images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput, require_known
from participant.data.base import DataOptions, named_labels
from participant.data.table import read_table

SUFFIXES: dict[str, tuple[str, ...]] = {
    "images": (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff"),
    "dicom": (".dcm", ".dicom", ".ima"),
    "nifti": (".nii", ".nii.gz"),
}
"""File name endings of each format; DICOM files are also recognised by their content."""

LABEL_OPTIONS = {
    "labels": "a .csv with the columns file (path or name) and label; default: one sub-folder per class",
    "label": "column of the label in that .csv; default: label",
    "classes": "all classes in order; default: sorted",
    "format": "images, dicom or nifti, if a folder has several",
}

_MAGIC_AT, _MAGIC = 128, b"DICM"
_NO_DATA = frozenset({"DICOMDIR"})


def format_of(path: Path) -> str | None:
    """Return the format of one file, by its name or by DICOM's preamble."""
    name = path.name.lower()
    for kind, suffixes in SUFFIXES.items():
        if name.endswith(suffixes):
            return kind
    if path.name.startswith(".") or path.name in _NO_DATA or path.suffix.lower() in (".csv", ".txt", ".json"):
        return None
    try:
        with path.open("rb") as file:
            file.seek(_MAGIC_AT)
            return "dicom" if file.read(len(_MAGIC)) == _MAGIC else None
    except OSError:
        return None


def folder_format(folder: Path, options: DataOptions) -> str:
    """Return the single format of a folder's files, or the one that the user chose."""
    chosen = options.options.get("format", "")  # not the model file's: hospitals may use other formats
    if chosen:
        require_known("data option 'format'", chosen, SUFFIXES)
        return chosen
    kinds = {format_of(path) for path in folder.rglob("*") if path.is_file()} - {None}
    if len(kinds) > 1:
        found = " and ".join(sorted(str(kind) for kind in kinds))
        raise InvalidInput(str(folder), f"files of several formats: {found}", "one", "Choose with format=NAME.")
    return str(kinds.pop()) if kinds else "images"


def files_of(path: Path, kind: str) -> list[Path]:
    """Return all files of a format below a folder, sorted by path so that the order is the same everywhere; or the one
    file."""
    if path.is_file():
        return [path]
    found = [entry for entry in path.rglob("*") if entry.is_file() and not entry.name.startswith(".")]
    found = [entry for entry in found if format_of(entry) == kind]
    if not found:
        raise InvalidInput(str(path), "no such files", f"a folder of {kind} files")
    return sorted(found, key=lambda entry: entry.relative_to(path).as_posix())


def names_in(base: Path, files: Sequence[Path]) -> list[str]:
    """Return paths relative to the folder; for a single file, its name."""
    return [file.name if base.is_file() else file.relative_to(base).as_posix() for file in files]


def labels_of(
    base: Path,
    files: Sequence[Path],
    options: DataOptions,
    *,
    match: str = "file",
    keys: Sequence[str] | None = None,
    disguise: Callable[[str], str] = str,
) -> tuple[IndexArray, tuple[str, ...]]:
    """Return one label per file, as positions in the classes, and the classes.

    match: the column of the .csv to look up. keys: each file's value in that column (default: its path). disguise:
    applied to the column if the keys are hashed; errors name only the file, not the key.
    """
    names = names_in(base, files)
    table_name = options.text("labels", "")
    if not table_name:
        tops = [name.partition("/")[0] if "/" in name else "" for name in names]
        if "" in tops:
            fix = "Or use labels=FILE.csv, a table with the columns file and label."
            raise InvalidInput(str(files[tops.index("")]), "no label", "a file in the sub-folder of its class", fix)
        return named_labels(np.array(tops), options.texts("classes"), str(base))
    table = read_table(Path(table_name).expanduser())
    label = options.text("label", "label")
    listed = dict(zip(map(disguise, table.texts(match)), table.texts(label), strict=True))
    found: list[str] = []
    for number, name in enumerate(names):
        wanted = [name, Path(name).name] if keys is None else [keys[number]]
        at = next((key for key in wanted if key in listed), None)
        if at is None:
            fix = "Add a row, or remove the file from the folder."
            raise InvalidInput(name, "no label", f"a row for its {match} in {table.path}", fix)
        found.append(listed[at])
    return named_labels(np.array(found), options.texts("classes"), f"{table.path}: {label}")
