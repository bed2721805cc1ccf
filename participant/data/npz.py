"""Load a user's own data set from an .npz file; defines the arrays it may hold and their meaning.

No pickle. Preprocessing comes from the file or is a constant default for the kind of data; it never depends on the
values.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT, Constant, Preprocessing
from participant.data.archive import AnyArray, Archive, read_archive
from participant.data.base import DataOptions, Dataset, InputArray, NewSamples, named_labels, numbered
from participant.data.images import as_pixels, image_preprocessing

Samples = TypeVar("Samples", Dataset, NewSamples)

SCALE, OFFSET, STEPS = "preprocessing_scale", "preprocessing_offset", "preprocessing_steps"
RECIPE = "preprocessing_recipe"

ARRAYS = {
    "x": "uint8 images (n, H, W), (n, C, H, W), (n, H, W, C), resized if the model file says so, or volumes "
    "(n, C, D, H, W); or numbers (n, T), (n, C, T), (n, C, H, W), (n, C, D, H, W)",
    "y": "(n,) whole numbers from 0, or text; not needed to predict",
    "classes": "names of all classes, in order",
    "patient, group": "(n,) patient or recording of a sample, never divided; one of the two",
    "subject, site": "(n,) which client a sample belongs to, in the lab; one of the two",
    "span": "(n, 2) first and last + 1 time step of a window in its recording; overlapping windows are never divided",
    "id": "(n,) name of a sample in predictions; default: its number",
}
_MOST_UNNAMED = 1000
"""Labels may be this large, or as many as there are samples, without an array of class names: larger ones are codes or
measurements. Below it a file may lack classes that other hospitals have."""

_GROUPS = ("group", "patient")
_SITES = ("site", "subject")


def load(path: Path, options: DataOptions) -> Dataset:
    """Load a user's file. Arrays: x, y; optional classes, group or patient, site or subject, span, site_names.

    x: uint8 images (n, H, W), (n, C, H, W) or (n, H, W, C), or numbers (n, C, T) or (n, T). y: integers or text.
    A patient is a group (never divided), a subject is a site (a separate client).
    """
    options.require_known(path.name)
    return as_model_file_asks(dataset_of(read_archive(path)), options)


def load_new(path: Path, options: DataOptions) -> NewSamples:
    """Load only the array x; samples are named by the array id if there is one, otherwise numbered."""
    options.require_known(path.name)
    archive = read_archive(path)
    x = as_inputs(archive.array("x"), f"{path}: x")
    ids = archive.array("id", shape=(len(x),)).tolist() if archive.get("id") is not None else range(1, len(x) + 1)
    new = NewSamples(x=x, names=tuple(map(str, ids)), preprocessing=_preprocessing(archive, x))
    return as_model_file_asks(new, options)


def as_model_file_asks(found: Samples, options: DataOptions) -> Samples:
    """Resize 8-bit images as the model file asks: a model for resized image files also accepts arrays of images."""
    recipe = options.recipe
    if recipe.get("format") not in ("images", "dicom") or "size" not in recipe:
        return found
    if found.preprocessing != IMAGE_8BIT or found.x.ndim != 4 or found.x.shape[1] not in (1, 3):
        return found
    from PIL import Image

    size, channels = int(recipe["size"]), int(recipe["channels"])
    pictures = (Image.fromarray(one[0] if len(one) == 1 else np.moveaxis(one, 0, -1)) for one in found.x)
    x = np.stack([as_pixels(picture, size=size, channels=channels) for picture in pictures])
    prepared = image_preprocessing(size=size, channels=channels, recipe={"format": "images"})
    return replace(found, x=x, preprocessing=prepared)


def dataset_of(archive: Archive) -> Dataset:
    """Return the data set that the archive's arrays describe."""
    path = archive.path
    x = as_inputs(archive.array("x"), f"{path}: x")
    y, classes = _labels(archive, len(x))
    group_name = _one_of(archive, _GROUPS)
    site_name = _one_of(archive, _SITES)
    group = np.arange(len(x), dtype=np.int64)
    if group_name is not None:
        group = _codes(archive, group_name, len(x))[0]
    site, site_names = (None, ()) if site_name is None else _codes(archive, site_name, len(x))
    return Dataset(
        name=_text(archive, "name", path.stem),
        x=x,
        y=y,
        classes=classes,
        group=group,
        preprocessing=_preprocessing(archive, x),
        span=None if archive.get("span") is None else archive.integers("span", shape=(len(x), 2)),
        site=site,
        site_names=site_names,
        overlapping=archive.get("overlapping") is not None and bool(archive.array("overlapping", shape=())),
    )


def as_inputs(values: AnyArray, where: str) -> InputArray:
    """Return stored values in the layout of `Dataset.x`; InvalidInput if the layout is unknown."""
    if values.dtype == np.uint8:
        images = values.astype(np.uint8, copy=False)
        if images.ndim == 3:
            return images[:, None]
        if images.ndim == 4:
            channels_last = images.shape[1] not in (1, 3) and images.shape[3] in (1, 3)
            return np.ascontiguousarray(np.moveaxis(images, -1, 1)) if channels_last else images
        if images.ndim == 5:
            return images
        raise InvalidInput(
            where, f"shape {images.shape}", "images (n, H, W), (n, C, H, W), (n, H, W, C) or volumes (n, C, D, H, W)"
        )
    if values.dtype.kind not in "iuf":
        raise InvalidInput(where, f"dtype {values.dtype}", "uint8 images or numbers")
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, which Dataset refuses
        numbers = values.astype(np.float32)
    if numbers.ndim not in (2, 3, 4, 5):
        raise InvalidInput(where, f"shape {numbers.shape}", "(n, T), (n, C, T), (n, C, H, W) or (n, C, D, H, W)")
    return numbers[:, None] if numbers.ndim == 2 else numbers


def _labels(archive: Archive, samples: int) -> tuple[IndexArray, tuple[str, ...]]:
    stored = archive.get("classes")
    listed = () if stored is None else tuple(str(name) for name in archive.array("classes", shape=(None,)).tolist())
    labels = archive.array("y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (samples,):
        raise InvalidInput(f"{archive.path}: y", f"shape {labels.shape}", f"({samples},), one label per sample")
    if labels.dtype.kind == "U":
        return named_labels(labels, listed, f"{archive.path}: y")
    if labels.dtype.kind not in "iu":
        raise InvalidInput(f"{archive.path}: y", f"dtype {labels.dtype}", "whole numbers from 0, or text")
    y = labels.astype(np.int64)
    highest, limit = int(y.max(initial=-1)), max(samples, _MOST_UNNAMED)
    if not listed and highest >= limit:
        fix = "Store the names of all classes as the array classes, or the labels as text."
        raise InvalidInput(
            f"{archive.path}: y", f"a label {highest}", f"numbers of classes, from 0 to {limit - 1}", fix
        )
    return y, listed or tuple(f"class {number}" for number in range(highest + 1))


def _one_of(archive: Archive, names: tuple[str, ...]) -> str | None:
    present = [name for name in names if archive.get(name) is not None]
    if len(present) > 1:
        raise InvalidInput(str(archive.path), f"arrays {' and '.join(present)}", "only one of them")
    return present[0] if present else None


def _codes(archive: Archive, name: str, samples: int) -> tuple[IndexArray, tuple[str, ...]]:
    """Return codes and names. Integers are unchanged if their names are stored (sites) or not needed (groups)."""
    values = archive.array(name, shape=(samples,))
    if name in _GROUPS and values.dtype.kind in "iu":
        return values.astype(np.int64), ()
    if name in _SITES and archive.get("site_names") is not None:
        names = archive.array("site_names", shape=(None,))
        return archive.integers(name), tuple(str(value) for value in names.tolist())
    if values.dtype.kind not in "iuU":
        raise InvalidInput(f"{archive.path}: {name}", f"dtype {values.dtype}", "whole numbers or text")
    return numbered(values)


def _preprocessing(archive: Archive, x: InputArray) -> Preprocessing:
    if archive.get(SCALE) is None:
        return IMAGE_8BIT if x.dtype == np.uint8 else Preprocessing(steps=("values as stored",))
    recipe = archive.get(RECIPE)
    return Preprocessing(
        scale=_constant(archive, SCALE),
        offset=_constant(archive, OFFSET),
        steps=tuple(str(step) for step in archive.array(STEPS, shape=(None,)).tolist()),
        recipe=() if recipe is None else tuple((str(key), str(value)) for key, value in recipe.tolist()),
    )


def _constant(archive: Archive, name: str) -> Constant:
    value = archive.array(name)
    if value.dtype.kind != "f" or value.ndim > 1:
        raise InvalidInput(
            f"{archive.path}: {name}", f"{value.dtype} {value.shape}", "one floating-point number, or one per column"
        )
    return float(value.item()) if value.ndim == 0 else tuple(float(one) for one in value.tolist())


def _text(archive: Archive, name: str, default: str) -> str:
    return default if archive.get(name) is None else str(archive.array(name, shape=()).item())
