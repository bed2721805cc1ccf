"""The smartwatch data inside seglearn's wheel: 10 people, 7 shoulder exercises, 140 recordings of 6 channels at 50 Hz.

Real data that need no download. The file is a pickle, the only one this project ever reads: it comes from a pinned
dependency, its SHA-256 is checked first, and the unpickler accepts only arrays. seglearn itself is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy._core.multiarray import _reconstruct
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput, missing_library
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, numbered
from participant.data.windows import window_starts

SHA256 = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"
WINDOW, STEP = 200, 100
"""4 s at 50 Hz, half overlapping."""
_CHANNELS = 6
_FIX = "Install the pinned version: pip install --force-reinstall 'seglearn>=1.2.5,<1.3'"


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """The file's content: one (steps, 6) array per recording, with its exercise and its person."""

    signals: tuple[NDArray[np.float64], ...]
    exercise: NDArray[np.int64]
    person: NDArray[np.int64]
    exercises: tuple[str, ...]


def load(options: DataOptions) -> Dataset:
    """Load (n, 6, 200) float32: acceleration in g, angular rate in rad/s, as recorded. A site is a person."""
    options.require_known("watch")
    recordings = read_recordings(locate())
    site_of, names = numbered(recordings.person)
    parts, group, start = [], [], []
    for number, signal in enumerate(recordings.signals):
        for first in window_starts(len(signal), window=WINDOW, step=STEP):
            parts.append(signal[first : first + WINDOW].T)
            group.append(number)
            start.append(first)
    recording = np.array(group, dtype=np.int64)
    begin = np.array(start, dtype=np.int64)
    return Dataset(
        name="watch",
        x=np.stack(parts).astype(np.float32),
        y=recordings.exercise[recording],
        classes=recordings.exercises,
        group=recording,
        preprocessing=Preprocessing(steps=("6-axis inertial windows", "acceleration in g", "angular rate in rad/s")),
        span=np.stack((begin, begin + WINDOW), axis=1),
        site=site_of[recording],
        site_names=tuple(f"person-{name}" for name in names),
        overlapping=True,
    )


def locate() -> Path:
    """Return the file inside the installed wheel; find_spec runs no module code."""
    spec = importlib.util.find_spec("seglearn")
    if spec is None:
        raise missing_library("seglearn")
    for folder in spec.submodule_search_locations or ():
        path = Path(folder) / "data" / "watch_dataset.npy"
        if path.is_file():
            return path
    raise InvalidInput("data 'watch'", "no seglearn/data/watch_dataset.npy", "the package seglearn 1.2.5", _FIX)


def read_recordings(path: Path, *, sha256: str = SHA256) -> Recordings:
    """Check the hash, then unpickle arrays and plain containers only."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InvalidInput(str(path), f"SHA-256 {found[:16]}…", f"SHA-256 {sha256[:16]}…", _FIX)
    stream = io.BytesIO(content)
    np.lib.format.read_magic(stream)
    np.lib.format.read_array_header_1_0(stream)
    return _checked(_ArraysOnly(stream).load(), path)


class _ArraysOnly(pickle.Unpickler):
    """Builds only arrays from bytes: any other name in the stream raises an error before it is looked up."""

    _ALLOWED = {  # noqa: RUF012 (a constant; a Mapping proxy would only hide it)
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    }

    def find_class(self, module_name: str, global_name: str) -> object:
        try:
            return self._ALLOWED[module_name, global_name]
        except KeyError:
            raise InvalidInput(
                "watch_dataset.npy", f"{module_name}.{global_name}", "arrays and plain containers only", _FIX
            ) from None


def _checked(content: object, path: Path) -> Recordings:
    """Return the unpickled object as `Recordings`, with every array checked."""
    cell = content.item() if isinstance(content, np.ndarray) and content.shape == () else None
    if not isinstance(cell, dict):
        raise InvalidInput(str(path), type(content).__name__, "one table of recordings", _FIX)
    signals = tuple(np.asarray(signal, dtype=np.float64) for signal in cell["X"])
    exercise = np.asarray(cell["y"], dtype=np.int64)
    person = np.asarray(cell["subject"], dtype=np.int64)
    if any(signal.ndim != 2 or signal.shape[1] != _CHANNELS for signal in signals):
        raise InvalidInput(str(path), "a recording of another shape", f"(steps, {_CHANNELS}) per recording", _FIX)
    if exercise.shape != (len(signals),) or person.shape != exercise.shape:
        raise InvalidInput(str(path), f"{exercise.shape} labels", f"{len(signals)}, one per recording", _FIX)
    names = tuple(str(name) for name in cell["y_labels"])
    return Recordings(signals=signals, exercise=exercise, person=person, exercises=names)
