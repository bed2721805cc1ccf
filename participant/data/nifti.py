"""Read NIfTI files as 8-bit volumes or slices: reoriented to common axes, windowed, resized.

Decides axes and ranges. Axes follow the file's affine and are then the same for all: depth from the top of the patient
down, height from front to back, width from the patient's right to left. Voxel spacing is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput, require_known
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from participant.data.base import DataOptions, Dataset, NewSamples
from participant.data.files import LABEL_OPTIONS, files_of, labels_of, names_in
from participant.data.images import as_pixels, codes_from_paths, image_preprocessing
from participant.data.windowing import Window, to_8_bits

VIEWS = ("volume", "slices")
AXES = {"axial": 0, "coronal": 1, "sagittal": 2}
PERCENTILES = (1.0, 99.0)

OPTIONS = {
    "view": "volume (default): every file is a sample, for a model such as cnn3d; slices: images cut from it",
    "axis": "axial (default), coronal or sagittal: the slices' axis",
    "slices": "number of slices per file, evenly spaced; 1: the middle one; default: all",
    "window": "center/width, as in 40/400; percentiles (default): from the 1st to the 99th of each volume",
    "size": "depth x height x width, as in 32x32x32 (slices: one number), to which all are resized; default: all "
    "have one size already",
    "group": "regular expression that captures the patient in the path, as in (sub-[0-9]+); default: every file",
    **LABEL_OPTIONS,
}


def load(path: Path, options: DataOptions) -> Dataset:
    """Load (n, 1, D, H, W) or (n, 1, H, W) uint8 in the order of files; options as in OPTIONS."""
    options.require_known(path.name, tuple(OPTIONS))
    files = files_of(path, "nifti")
    y, classes = labels_of(path, files, options)
    group = np.arange(len(files), dtype=np.int64)
    if "group" in options.options:
        group = codes_from_paths(files, path, options.text("group", ""), "group")[0]
    new, counts = _samples(path, files, options)
    return Dataset(
        name=path.name,
        x=new.x,
        y=np.repeat(y, counts),
        classes=classes,
        group=np.repeat(group, counts),
        preprocessing=new.preprocessing,
    )


def load_new(path: Path, options: DataOptions) -> NewSamples:
    """Load all NIfTI files below the folder, or the one file, by name; labels are ignored."""
    options.require_known(path.name, tuple(OPTIONS))
    return _samples(path, files_of(path, "nifti"), options)[0]


def _samples(base: Path, files: Sequence[Path], options: DataOptions) -> tuple[NewSamples, list[int]]:
    """Return all samples, and the number of samples of each file."""
    view, axis = options.text("view", "volume"), options.text("axis", "axial")
    require_known("data option 'view'", view, VIEWS)
    require_known("data option 'axis'", axis, AXES)
    images: list[NDArray[np.uint8]] = []
    names: list[str] = []
    counts: list[int] = []
    for file, name in zip(files, names_in(base, files), strict=True):
        shares = _windowed(_volume(file), options)
        if view == "volume":
            found = [(name, _resized(shares, options))]
        else:
            found = [(f"{name}#{number + 1}", image) for number, image in _slices(shares, AXES[axis], options)]
        for called, image in found:
            if images and image.shape != images[0].shape:
                got, first = ("x".join(map(str, shape[1:])) for shape in (image.shape, images[0].shape))
                fix = "Set the data option size=32x32x32 (slices: size=64), or another, to resize all."
                raise InvalidInput(called, f"size {got}", f"size {first} like {names[0]}", fix)
            images.append(image)
            names.append(called)
        counts.append(len(found))
    preprocessing = _preprocessing(view, axis, options)
    return NewSamples(x=np.stack(images), names=tuple(names), preprocessing=preprocessing), counts


def _volume(file: Path) -> NDArray[np.float64]:
    """Return (D, H, W) in the common orientation; any unusable file gives a one-line error."""
    import nibabel

    try:
        image: Any = nibabel.as_closest_canonical(nibabel.load(file))  # type: ignore[no-untyped-call]
        values: NDArray[np.float64] = np.asarray(image.get_fdata(), dtype=np.float64)
    except (OSError, ValueError, EOFError, nibabel.filebasedimages.ImageFileError) as error:
        raise InvalidInput(str(file), f"unreadable ({type(error).__name__})", "a NIfTI file") from error
    if values.ndim == 4 and values.shape[3] == 1:
        values = values[..., 0]
    if values.ndim != 3:
        raise InvalidInput(str(file), f"shape {values.shape}", "one volume of three axes")
    if not np.isfinite(values).all():
        raise InvalidInput(str(file), "NaN or infinity", "finite numbers")
    return values.transpose(2, 1, 0)[::-1, ::-1, ::-1]  # canonical axes point right, to the front and up


def _windowed(values: NDArray[np.float64], options: DataOptions) -> NDArray[np.float64]:
    """Scale values to 0 to 1, in the same shape. Percentiles are those of this volume only."""
    window = options.text("window", "percentiles")
    if window != "percentiles":
        return Window.parse(window, "percentiles").shares(values)
    low, high = np.percentile(values, PERCENTILES)
    width = float(high - low) or 1.0  # a constant volume
    return Window(center=float(low + high) / 2, width=width).shares(values)


def _slices(shares: NDArray[np.float64], axis: int, options: DataOptions) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield (position, (1, H, W)) of the chosen slices."""
    from PIL import Image

    size = options.integer("size", 0, minimum=1) or None
    count = options.integer("slices", shares.shape[axis], minimum=1)
    if count > shares.shape[axis]:
        raise InvalidInput("data option 'slices'", count, f"at most {shares.shape[axis]}, as many as a volume has")
    for number in ((np.arange(count) + 0.5) * shares.shape[axis] / count).astype(np.int64).tolist():
        pixels = np.ascontiguousarray(to_8_bits(shares.take(number, axis=axis)))
        yield number, as_pixels(Image.fromarray(pixels), size=size, channels=1)


def _resized(shares: NDArray[np.float64], options: DataOptions) -> NDArray[np.uint8]:
    """Resize to (1, D, H, W): linear along each axis, with averaging when it shrinks, as for images."""
    for axis, size in enumerate(_volume_size(options) or shares.shape):
        if size != shares.shape[axis]:
            weights = _weights(shares.shape[axis], size)
            shares = np.moveaxis(np.tensordot(weights, shares, axes=(1, axis)), 0, axis)
    return to_8_bits(shares)[None]


def _volume_size(options: DataOptions) -> tuple[int, ...]:
    return options.shape("size", (), dims=(3,))


def _weights(length: int, size: int) -> NDArray[np.float64]:
    """Return (size, length) weights: a triangle around each new value, as wide as the range that it covers; rows sum
    to 1."""
    step = length / size
    places = (np.arange(size) + 0.5) * step
    apart = np.abs(np.arange(length) + 0.5 - places[:, None]) / max(step, 1.0)
    weights = np.maximum(1.0 - apart, 0.0)
    normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _preprocessing(view: str, axis: str, options: DataOptions) -> Preprocessing:
    window = options.text("window", "percentiles")
    shown = "1st to 99th percentile of the volume" if window == "percentiles" else f"window {window}"
    recipe = {"format": "nifti", "view": view, "window": window}
    if view == "slices":
        recipe |= {"axis": axis, **dict(options.recipe_of("slices"))}
        cut = () if axis == "axial" else (f"{axis} slices",)
        size = options.integer("size", 0, minimum=1) or None
        return image_preprocessing(*cut, shown, size=size, channels=1, recipe=recipe)
    steps: tuple[str, ...] = ("8-bit volume", IMAGE_8BIT.steps[1], shown)
    if wanted := _volume_size(options):
        text = "x".join(map(str, wanted))
        steps, recipe = (*steps, f"resized to {text}, linear, antialiased"), recipe | {"size": text}
    return Preprocessing(scale=IMAGE_8BIT.scale, offset=IMAGE_8BIT.offset, steps=steps, recipe=tuple(recipe.items()))
