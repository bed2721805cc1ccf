"""Load a user's own images: decides which file has which label. Pixels are read elsewhere.

Labels come from one sub-folder per class, or from a .csv for images anywhere below the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, NewSamples
from participant.data.files import LABEL_OPTIONS, files_of, labels_of, names_in
from participant.data.images import (
    codes_from_paths,
    image_paths,
    image_preprocessing,
    read_images,
    wanted_channels,
)

COMMON = ("size", "channels", "group", "site")
"""Options of every source that reads image files."""

OPTIONS = {
    "size": "width and height in pixels, to which all are resized; default: all have one size already",
    "channels": "1 (grey) or 3 (colour); default: 1 when all are grey",
    "group": "regular expression that captures the patient in the path, as in (P[0-9]+)_",
    "site": "regular expression that captures the client in the path, in the lab",
    "window": "the window (center/width) that the images were exported with, if it was the same for all",
    **LABEL_OPTIONS,
}


def load(path: Path, options: DataOptions) -> Dataset:
    """Load (n, C, H, W) uint8; options as in OPTIONS. Without `labels`, samples are ordered by class."""
    options.require_known(path.name, tuple(OPTIONS))
    size = options.integer("size", 0, minimum=1) or None
    if "labels" in options.options:
        paths = files_of(path, "images")
        y, classes = labels_of(path, paths, options)
        return _dataset(path.name, path, paths, y, classes, options, size=size)
    found = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        fix = "Or use labels=FILE.csv, a table with the columns file and label."
        raise InvalidInput(str(path), "no sub-folders", "one sub-folder of images per class", fix)
    classes = options.texts("classes") or tuple(found)
    unlisted = [name for name in found if name not in classes]
    if unlisted:
        raise InvalidInput(str(path), f"a sub-folder {unlisted[0]!r}", f"only the classes {', '.join(classes)}")
    folders = [path / name if name in found else None for name in classes]
    return images_dataset(path.name, path, folders, classes, options, size=size)


def load_new(path: Path, options: DataOptions) -> NewSamples:
    """Load all images below the folder, or the one image, by name; sub-folders have no meaning."""
    options.require_known(path.name, tuple(OPTIONS))
    paths = files_of(path, "images")
    size = options.integer("size", 0, minimum=1) or None
    x = read_images(paths, size=size, channels=wanted_channels(options))
    preprocessing = _preprocessing(size, x.shape[1], options)
    return NewSamples(x=x, names=tuple(names_in(path, paths)), preprocessing=preprocessing)


def images_dataset(
    name: str,
    base: Path,
    folders: Sequence[Path | None],
    classes: tuple[str, ...],
    options: DataOptions,
    *,
    size: int | None,
    channels: int | None = None,
) -> Dataset:
    """Load all images of one folder per class (None: the class has no images here); `base` is the folder above them."""
    per_class = [image_paths(folder) if folder is not None else [] for folder in folders]
    for folder, paths in zip(folders, per_class, strict=True):
        if folder is not None and not paths:
            raise InvalidInput(str(folder), "no images", "png, jpeg, bmp, tiff, pgm or ppm files")
    paths = [path for members in per_class for path in members]
    y = np.repeat(np.arange(len(classes), dtype=np.int64), [len(members) for members in per_class])
    return _dataset(name, base, paths, y, classes, options, size=size, channels=channels)


def _dataset(
    name: str,
    base: Path,
    paths: Sequence[Path],
    y: IndexArray,
    classes: tuple[str, ...],
    options: DataOptions,
    *,
    size: int | None,
    channels: int | None = None,
) -> Dataset:
    wanted = wanted_channels(options, channels)
    group = np.arange(len(paths), dtype=np.int64)
    if "group" in options.options:
        group = codes_from_paths(paths, base, options.text("group", ""), "group")[0]
    site: IndexArray | None = None
    site_names: tuple[str, ...] = ()
    if "site" in options.options:
        site, site_names = codes_from_paths(paths, base, options.text("site", ""), "site")
    x = read_images(paths, size=size, channels=wanted)
    return Dataset(
        name=name,
        x=x,
        y=y,
        classes=classes,
        group=group,
        preprocessing=_preprocessing(size, x.shape[1], options),
        site=site,
        site_names=site_names,
    )


def _preprocessing(size: int | None, channels: int, options: DataOptions) -> Preprocessing:
    """Describe the preprocessing. A window is included only if the user gives it: a model file cannot know how images
    were exported."""
    window = options.options.get("window")
    stated = (f"window {window}",) if window is not None else ()
    return image_preprocessing(*stated, size=size, channels=channels, recipe={"format": "images"})
