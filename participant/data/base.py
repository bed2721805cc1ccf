"""The types of data sets and their options: `Dataset` and `DataOptions`, with their checks.

Independent of file formats and sources. Data sets are plain numpy arrays; batches become tensors elsewhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.preprocessing import Preprocessing

InputArray = NDArray[np.uint8] | NDArray[np.float32]

ROOT_VARIABLE = "FEDAP_DATA"
DEFAULT_ROOT = Path("~/.cache/fedap")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Samples with everything that partitions and splits need to know about them.

    x: (n, C, H, W) images or (n, C, D, H, W) volumes as uint8; the same or (n, C, T) signals as float32; n >= 1.
    y: (n,) in [0, len(classes)).
    group: (n,), the recording or patient a sample belongs to (`np.arange(n)` if samples are independent).
    span: (n, 2), the raw time steps [start, stop) inside the group, or None if the data have no time axis.
    site: (n,) positions in `site_names`, or None if the data have no sites.
    """

    name: str
    x: InputArray
    y: IndexArray
    classes: tuple[str, ...]
    group: IndexArray
    preprocessing: Preprocessing
    span: IndexArray | None = None
    site: IndexArray | None = None
    site_names: tuple[str, ...] = ()
    overlapping: bool = False

    def __post_init__(self) -> None:
        self._check_inputs()
        # One memory layout for all: it decides which kernels run, and so the last bits of the results.
        object.__setattr__(self, "x", np.ascontiguousarray(self.x))
        samples = len(self.x)
        self._check_index("y", self.y, (samples,))
        self._check_index("group", self.group, (samples,))
        self._check_range("y", self.y, self.classes, "classes")
        if self.span is not None:
            self._check_index("span", self.span, (samples, 2))
            if np.any(self.span[:, 0] >= self.span[:, 1]) or self.span[:, 0].min() < 0:
                raise InvalidInput(f"{self.name}: span", "a span that is empty or starts below 0", "0 <= start < stop")
        if self.site is not None:
            self._check_index("site", self.site, (samples,))
            self._check_range("site", self.site, self.site_names, "site_names")
        elif self.site_names:
            raise InvalidInput(f"{self.name}: site_names", self.site_names, "no names if `site` is None")

    def _check_inputs(self) -> None:
        is_image = self.x.dtype == np.uint8
        if not is_image and self.x.dtype != np.float32:
            raise InvalidInput(f"{self.name}: x", f"dtype {self.x.dtype}", "uint8 (images) or float32 (signals)")
        if self.x.ndim not in ((4, 5) if is_image else (3, 4, 5)) or self.x.size == 0:
            expected = "(n, channels, [depth,] height, width)" + ("" if is_image else " or (n, channels, time)")
            raise InvalidInput(f"{self.name}: x", f"shape {self.x.shape}", f"{expected} without an empty axis")
        columns = self.preprocessing.columns
        if columns not in (None, self.x.shape[-1]):
            raise InvalidInput(f"{self.name}: x", f"shape {self.x.shape}", f"{columns} columns, one per constant")
        if not is_image and not np.isfinite(self.x).all():
            bad = int(np.argmin(np.isfinite(self.x).reshape(len(self.x), -1).all(axis=1)))
            raise InvalidInput(f"{self.name}: x", f"NaN or infinity in sample {bad}", "finite numbers")

    def _check_index(self, field_name: str, values: IndexArray, shape: tuple[int, ...]) -> None:
        if values.dtype != np.int64 or values.shape != shape:
            got = f"{values.dtype} {values.shape}"
            raise InvalidInput(f"{self.name}: {field_name}", got, f"int64 {shape}, one entry per sample of x")

    def _check_range(self, field_name: str, values: IndexArray, names: tuple[str, ...], names_field: str) -> None:
        if len(set(names)) != len(names) or not names:
            raise InvalidInput(f"{self.name}: {names_field}", names, "at least one name, none twice")
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= len(names):
            raise InvalidInput(
                f"{self.name}: {field_name}", f"values from {low} to {high}", f"0 to {len(names) - 1} ({names_field})"
            )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x.shape[1:])

    def take(self, indices: IndexArray) -> Dataset:
        """Return the samples at these indices, in order; names and preprocessing stay, so labels keep their meaning."""
        return Dataset(
            name=self.name,
            x=self.x[indices],
            y=self.y[indices],
            classes=self.classes,
            group=self.group[indices],
            preprocessing=self.preprocessing,
            span=None if self.span is None else self.span[indices],
            site=None if self.site is None else self.site[indices],
            site_names=self.site_names,
            overlapping=self.overlapping,
        )

    def with_classes(self, classes: tuple[str, ...]) -> Dataset:
        """Return the same samples with another list of classes, which must contain every class that occurs here."""
        if classes == self.classes:
            return self
        occurring = [self.classes[number] for number in np.unique(self.y)]
        unknown = [name for name in occurring if name not in classes]
        if unknown:
            fix = "Give the classes of all hospitals when the model file is created: `init --classes a,b,c`."
            raise InvalidInput(
                f"{self.name}: classes of the data", ", ".join(unknown), f"some of {', '.join(classes)}", fix
            )
        places = [classes.index(name) if name in classes else -1 for name in self.classes]
        return replace(self, y=np.array(places, dtype=np.int64)[self.y], classes=classes)


@dataclass(frozen=True, kw_only=True)
class NewSamples:
    """Samples to predict. x: as in a data set. names: (n,), the name of each one in the predictions."""

    x: InputArray
    names: tuple[str, ...]
    preprocessing: Preprocessing


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where the data are, and the options of a source. Options are text, as in a command line or a config file.

    root: the folder of downloaded files; None means the environment variable FEDAP_DATA, else ~/.cache/fedap.
    recipe: options from a model file's preprocessing; the user's own options override them.
    """

    root: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    download: bool = True
    recipe: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The data folder: from `root`, the environment or the default."""
        if self.root is not None:
            return self.root.expanduser()
        return Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser()

    def require_known(self, source: str, known: Sequence[str] = ()) -> None:
        """Refuse an option that the source does not know: a misspelt option must not be ignored."""
        for key in self.options:
            if key not in known:
                if not known:
                    raise InvalidInput(f"option of data {source!r}", key, "no options at all")
                raise unknown_name(f"option of data {source!r}", key, known)

    def given(self, key: str) -> str | None:
        """Return the user's value, else the model file's."""
        return self.options.get(key, self.recipe.get(key))

    def recipe_of(self, *keys: str) -> tuple[tuple[str, str], ...]:
        """Return those of the options that are given: a source needs them again to store the same values."""
        return tuple((key, text) for key in keys if (text := self.given(key)) is not None)

    def text(self, key: str, default: str) -> str:
        found = self.given(key)
        return default if found is None else found

    def texts(self, key: str) -> tuple[str, ...]:
        """Parse a comma-separated list; empty if the option is not given."""
        text = self.given(key)
        parts = tuple(part.strip() for part in (text or "").split(",") if part.strip())
        if text is not None and not parts:
            raise InvalidInput(f"data option {key!r}", text, "a list separated by commas")
        return parts

    def integer(self, key: str, default: int, *, minimum: int, maximum: int | None = None) -> int:
        text = self.given(key)
        if text is None:
            return default
        expected = f"a whole number of at least {minimum}" + ("" if maximum is None else f" and at most {maximum}")
        try:
            value = int(text)
        except ValueError as error:
            raise InvalidInput(f"data option {key!r}", text, expected) from error
        if value < minimum or (maximum is not None and value > maximum):
            raise InvalidInput(f"data option {key!r}", text, expected)
        return value

    def number(self, key: str, default: float, *, minimum: float, maximum: float) -> float:
        text = self.given(key)
        if text is None:
            return default
        expected = f"a number from {minimum:g} to {maximum:g}"
        try:
            value = float(text)
        except ValueError as error:
            raise InvalidInput(f"data option {key!r}", text, expected) from error
        if not minimum <= value <= maximum:
            raise InvalidInput(f"data option {key!r}", text, expected)
        return value

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """Parse `count` finite numbers separated by commas; empty if the option is not given."""
        parts = self.texts(key)
        try:
            values = tuple(float(part) for part in parts)
        except ValueError:
            values = (math.nan,)
        if parts and (len(values) != count or not all(math.isfinite(value) for value in values)):
            raise InvalidInput(
                f"data option {key!r}", self.text(key, ""), f"{count} finite numbers, separated by commas"
            )
        return values

    def shape(self, key: str, default: tuple[int, ...], *, dims: Sequence[int]) -> tuple[int, ...]:
        """Parse sizes joined by x, as in 1x16x16."""
        text = self.given(key)
        if text is None:
            return default
        parts = text.lower().split("x")
        if len(parts) not in dims or not all(part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
            wanted = " or ".join(str(count) for count in dims)
            raise InvalidInput(f"data option {key!r}", text, f"{wanted} sizes joined by x, as in 1x16x16")
        return tuple(int(part) for part in parts)


DataSource = Callable[[DataOptions], Dataset]


class FileFormat(NamedTuple):
    """The functions that read files of one format: with labels, and without."""

    load: Callable[[Path, DataOptions], Dataset]
    load_new: Callable[[Path, DataOptions], NewSamples]


def numbered(values: NDArray[np.generic]) -> tuple[IndexArray, tuple[str, ...]]:
    """Return labels as positions 0, 1, ... in their sorted distinct values, and those values as text."""
    distinct, positions = np.unique(values, return_inverse=True)
    return positions.astype(np.int64).reshape(values.shape), tuple(str(value) for value in distinct.tolist())


def named_labels(
    labels: NDArray[np.generic], listed: tuple[str, ...], where: str
) -> tuple[IndexArray, tuple[str, ...]]:
    """Return text labels as positions in `listed`, or in their own sorted distinct values if nothing is listed."""
    y, found = numbered(labels)
    if not listed:
        return y, found
    unlisted = [name for name in found if name not in listed]
    if unlisted:
        raise InvalidInput(where, unlisted[0], f"one of {', '.join(listed)}")
    return np.array([listed.index(name) for name in found], dtype=np.int64)[y], listed
