"""Read image files into one uint8 array: find, open, and convert them to one size and one number of channels.

Independent of classes and sources. Sixteen-bit images are refused rather than silently clipped to eight bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from participant.data.base import DataOptions, numbered
from participant.data.files import SUFFIXES

if TYPE_CHECKING:  # imported only when a file is opened: most data are not image files
    from PIL import Image

_GREY, _COLOUR = ("1", "L"), ("CMYK", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr")


def image_paths(folder: Path) -> list[Path]:
    """Return all image files below the folder, sorted by path so that the order is the same everywhere."""
    suffixes = SUFFIXES["images"]
    found = [path for path in folder.rglob("*") if path.suffix.lower() in suffixes and not path.name.startswith(".")]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def read_images(paths: Sequence[Path], *, size: int | None, channels: int | None) -> NDArray[np.uint8]:
    """Return (n, C, H, W). size None: all must already have one size. channels None: 1 if all are grey, else 3.

    Resizing is bilinear with antialiasing and ignores the aspect ratio.
    """
    wanted = channels or (1 if all(_mode(path) in _GREY for path in paths) else 3)
    images: NDArray[np.uint8] | None = None
    for number, path in enumerate(paths):
        pixels = _read(path, size=size, channels=wanted)
        if images is None:
            images = np.empty((len(paths), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            got = f"{pixels.shape[2]}x{pixels.shape[1]} pixels"
            first = f"{images.shape[3]}x{images.shape[2]} pixels like {paths[0].name}"
            raise InvalidInput(str(path), got, first, "Set the data option size=224 (or another) to resize all.")
        images[number] = pixels
    if images is None:
        raise InvalidInput("images", "none", "at least one image file")
    return images


def image_preprocessing(*more: str, size: int | None, channels: int, recipe: Mapping[str, str]) -> Preprocessing:
    """Return the preprocessing of 8-bit images of any origin. more: further steps. recipe: the options for them."""
    steps, options = (*IMAGE_8BIT.steps, *more), dict(recipe) | {"channels": str(channels)}
    if size is not None:
        steps, options = (*steps, f"resized to {size}x{size}, bilinear, antialiased"), options | {"size": str(size)}
    return Preprocessing(scale=IMAGE_8BIT.scale, offset=IMAGE_8BIT.offset, steps=steps, recipe=tuple(options.items()))


def wanted_channels(options: DataOptions, default: int | None = None) -> int | None:
    """Return 1 or 3, or None: as in the images."""
    wanted = options.integer("channels", default or 0, minimum=1, maximum=3) or None
    if wanted == 2:
        raise InvalidInput("data option 'channels'", "2", "1 (grey) or 3 (colour)")
    return wanted


def codes_from_paths(
    paths: Sequence[Path], base: Path, pattern: str, option: str
) -> tuple[IndexArray, tuple[str, ...]]:
    """Number what the regular expression captures in each path relative to `base`; also return the captured texts."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InvalidInput(f"data option {option!r}", pattern, f"a regular expression ({error})") from error
    if expression.groups != 1:
        raise InvalidInput(
            f"data option {option!r}", pattern, "a regular expression with one group, as in (person[0-9]+)"
        )
    captured = []
    for path in paths:
        found = expression.search(path.relative_to(base).as_posix())
        if found is None or found[1] is None:
            raise InvalidInput(
                str(path), "a path that does not match", f"one that matches {pattern!r} (option {option})"
            )
        captured.append(found[1])
    return numbered(np.array(captured))


def _mode(path: Path) -> str:
    with _opened(path) as image:
        return image.mode


def _read(path: Path, *, size: int | None, channels: int) -> NDArray[np.uint8]:
    """Return (channels, H, W) of one file."""
    with _opened(path) as image:
        return as_pixels(image, size=size, channels=channels)


def as_pixels(image: Image.Image, *, size: int | None, channels: int) -> NDArray[np.uint8]:
    """Return (channels, H, W) of one image, resized if `size` differs; bilinear with antialiasing."""
    from PIL import Image

    flat = image.convert("L" if channels == 1 else "RGB")
    if size is not None and flat.size != (size, size):
        flat = flat.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(flat, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.moveaxis(pixels, -1, 0)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image; any unusable file gives a one-line error."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in _GREY + _COLOUR:
                raise InvalidInput(str(path), f"pixel format {image.mode}", "an 8-bit image", "Convert it to 8 bits.")
            yield image
    except InvalidInput:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        fix = "Replace the file or remove it from the folder."
        raise InvalidInput(str(path), f"a damaged image ({reason})", "a readable image", fix) from error
