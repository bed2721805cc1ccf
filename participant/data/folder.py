"""A user's own images: one sub-folder per class. It decides which file has which label; pixels are read elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from participant.data.base import DataOptions, Dataset
from participant.data.images import codes_from_paths, image_paths, read_images

OPTIONS = ("size", "channels", "group", "site")


def load(path: Path, options: DataOptions) -> Dataset:
    """(n, C, H, W) uint8, class after class. Options: size (pixels; default: all images have one size already),
    channels (1 or 3; default: 1 when all are grey), classes (names in order; default: the sub-folders sorted),
    group and site (regular expressions whose one group captures the patient or the site in the relative path)."""
    options.require_known(path.name, (*OPTIONS, "classes"))
    found = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        raise InvalidInput(str(path), "no sub-folders", "one sub-folder of images per class")
    classes = options.texts("classes") or tuple(found)
    unlisted = [name for name in found if name not in classes]
    if unlisted:
        raise InvalidInput(str(path), f"a sub-folder {unlisted[0]!r}", f"only the classes {', '.join(classes)}")
    folders = [path / name if name in found else None for name in classes]
    size = options.integer("size", 0, minimum=1) or None
    return images_dataset(path.name, path, folders, classes, options, size=size)


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
    """All images of one folder per class (None: the class has no images here); `base` is the folder above them."""
    per_class = [image_paths(folder) if folder is not None else [] for folder in folders]
    for folder, paths in zip(folders, per_class, strict=True):
        if folder is not None and not paths:
            raise InvalidInput(str(folder), "no images", "png, jpeg, bmp, tiff, pgm or ppm files")
    paths = [path for members in per_class for path in members]
    wanted = options.integer("channels", channels or 0, minimum=1, maximum=3) or None
    if wanted == 2:
        raise InvalidInput("data option 'channels'", "2", "1 (grey) or 3 (colour)")
    group = np.arange(len(paths), dtype=np.int64)
    if "group" in options.options:
        group = codes_from_paths(paths, base, options.text("group", ""), "group")[0]
    site: IndexArray | None = None
    site_names: tuple[str, ...] = ()
    if "site" in options.options:
        site, site_names = codes_from_paths(paths, base, options.text("site", ""), "site")
    return Dataset(
        name=name,
        x=read_images(paths, size=size, channels=wanted),
        y=np.repeat(np.arange(len(classes), dtype=np.int64), [len(members) for members in per_class]),
        classes=classes,
        group=group,
        preprocessing=_preprocessing(size),
        site=site,
        site_names=site_names,
    )


def _preprocessing(size: int | None) -> Preprocessing:
    if size is None:
        return IMAGE_8BIT
    steps = (*IMAGE_8BIT.steps, f"resized to {size}x{size}, bilinear, antialiased")
    return Preprocessing(scale=IMAGE_8BIT.scale, offset=IMAGE_8BIT.offset, steps=steps)
