"""PAMAP2 physical activity monitoring: `Protocol/subject10*.dat`, three inertial units on nine people at 100 Hz.

Decides which columns are used, where a recording is unbroken, and which activities are kept. Scaling uses constants:
acceleration in g, angular rate in rad/s, magnetic field in units of 50 µT (about the Earth's).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, numbered
from participant.data.windows import window_starts

ACTIVITIES = {
    1: "lying", 2: "sitting", 3: "standing", 4: "walking", 5: "running", 6: "cycling", 7: "Nordic walking",
    9: "watching TV", 10: "computer work", 11: "car driving", 12: "ascending stairs", 13: "descending stairs",
    16: "vacuum cleaning", 17: "ironing", 18: "folding laundry", 19: "house cleaning", 20: "playing soccer",
    24: "rope jumping",
}  # fmt: skip
"""The publisher's numbers; 0 (transient) is dropped."""
WINDOW, STEP = 200, 100
"""2 s, half overlapping."""
KEPT_CLASSES = 10
RATE_HZ = 100
_MAX_GAP_STEPS = RATE_HZ // 10
"""Wireless drop-outs of up to 0.1 s are interpolated linearly; longer ones end the recording."""
_FILE_COLUMNS = 54
_UNITS = (3, 20, 37)
"""First column of hand, chest and ankle: temperature, 3 acc ±16 g, 3 acc ±6 g, 3 gyro, 3 magnetometer, 4 orientation.
According to the publisher the ±6 g accelerometer saturates and the orientation is invalid: neither is used."""
_CHANNELS = tuple(unit + offset for unit in _UNITS for offset in (1, 2, 3, 7, 8, 9, 10, 11, 12))
_SCALES = np.tile(np.repeat((1.0 / 9.80665, 1.0, 1.0 / 50.0), 3), len(_UNITS))
_FIX = (
    "Unpack PAMAP2_Dataset.zip below the data root, or give the parent folder of Protocol with the data option folder=."
)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """An unbroken stretch of one activity: (steps, 27) values on a regular 100 Hz grid, without gaps."""

    activity: int
    values: FloatArray


def load(options: DataOptions) -> Dataset:
    """Load (n, 27, 200) float32. A site is a subject, a group a segment. Options: folder (PAMAP2_Dataset), activities
    (numbers in order; default: the 10 with most windows, so set them if participants hold different subjects)."""
    options.require_known("pamap2", ("folder", "activities"))
    protocol = options.folder / options.text("folder", "PAMAP2_Dataset") / "Protocol"
    paths = sorted(protocol.glob("subject10*.dat"))
    if not paths:
        raise InvalidInput(str(protocol), "no subject10*.dat", "the files of PAMAP2's Protocol folder", _FIX)
    x: list[NDArray[np.float32]] = []
    rows: list[tuple[int, int, int, int]] = []
    segments = 0
    for number, path in enumerate(paths):
        for segment in read_segments(path):
            scaled = (segment.values * _SCALES).astype(np.float32).T
            for first in window_starts(len(segment.values), window=WINDOW, step=STEP):
                x.append(scaled[:, first : first + WINDOW])
                rows.append((segment.activity, segments, first, number))
            segments += 1
    activity, group, begin, subject = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    kept, y, classes = _choose(activity, options, protocol)
    begin = begin[kept]
    site, site_names = numbered(np.array([path.stem.replace("subject", "subject-") for path in paths])[subject[kept]])
    return Dataset(
        name="pamap2",
        x=np.stack([x[at] for at in kept]),
        y=y,
        classes=classes,
        group=group[kept],
        preprocessing=Preprocessing(steps=("27 inertial channels", "g", "rad/s", "50 µT")),
        span=np.stack((begin, begin + WINDOW), axis=1),
        site=site,
        site_names=site_names,
        overlapping=True,
    )


def read_segments(path: Path) -> list[Segment]:
    """Return the unbroken stretches of one subject's file, without transient activity."""
    table = _read_table(path)
    step = np.rint(table[:, 0] * RATE_HZ).astype(np.int64)
    activity = table[:, 1].astype(np.int64)
    if np.any(np.diff(step) <= 0):
        raise InvalidInput(
            str(path),
            f"a time stamp that does not increase at row {int(np.argmax(np.diff(step) <= 0)) + 2}",
            "increasing time stamps",
            _FIX,
        )
    unknown = set(np.unique(activity).tolist()) - ACTIVITIES.keys() - {0}
    if unknown:
        raise InvalidInput(f"{path}: column 2", min(unknown), "a PAMAP2 activity number", _FIX)
    changes = np.flatnonzero((np.diff(activity) != 0) | (np.diff(step) > _MAX_GAP_STEPS + 1)) + 1
    segments: list[Segment] = []
    for first, stop in zip([0, *changes.tolist()], [*changes.tolist(), len(table)], strict=True):
        if activity[first] != 0:
            parts = whole_parts(step[first:stop], table[first:stop, 2:])
            segments.extend(Segment(activity=int(activity[first]), values=values) for values in parts)
    return segments


def whole_parts(step: IndexArray, values: FloatArray) -> list[FloatArray]:
    """Put values (n, C) at increasing time steps (n,) on the full grid, without gaps.

    Gaps of up to 0.1 s (missing rows, or NaN in a channel) are interpolated linearly; the stretch is cut at longer gaps
    and at gaps that touch an end. Interpolation never spans two parts: its gap would have to contain the longer one.
    """
    grid = np.arange(step[0], step[-1] + 1)
    filled = np.full((len(grid), values.shape[1]), np.nan)
    filled[step - step[0]] = values
    usable = np.ones(len(grid), dtype=np.bool_)
    for channel in filled.T:
        missing = np.isnan(channel)
        if not missing.any():
            continue
        edges = np.flatnonzero(np.diff(np.concatenate(([False], missing, [False])).astype(np.int8)))
        for first, stop in edges.reshape(-1, 2).tolist():
            if stop - first > _MAX_GAP_STEPS or first == 0 or stop == len(grid):
                usable[first:stop] = False
        if not missing.all():
            channel[missing] = np.interp(grid[missing], grid[~missing], channel[~missing])
    edges = np.flatnonzero(np.diff(np.concatenate(([False], usable, [False])).astype(np.int8)))
    return [filled[first:stop] for first, stop in edges.reshape(-1, 2).tolist()]


def _read_table(path: Path) -> FloatArray:
    """Read (rows, 29): time stamp, activity, 27 channels."""
    with path.open(encoding="ascii", errors="replace") as stream:
        columns = len(stream.readline().split())
    if columns != _FILE_COLUMNS:
        raise InvalidInput(f"{path}: row 1", f"{columns} columns", f"{_FILE_COLUMNS}", _FIX)
    try:
        return np.loadtxt(path, usecols=(0, 1, *_CHANNELS), ndmin=2, encoding="ascii")
    except ValueError as error:
        raise InvalidInput(str(path), f"unreadable rows ({error})", f"{_FILE_COLUMNS} numbers a row", _FIX) from error


def _choose(activity: IndexArray, options: DataOptions, where: Path) -> tuple[IndexArray, IndexArray, tuple[str, ...]]:
    """Return the positions of the windows to keep, their labels, and the class names."""
    asked = options.texts("activities")
    if asked:
        known = {str(number) for number in ACTIVITIES}
        wrong = [text for text in asked if text not in known]
        if wrong or len(set(asked)) != len(asked):
            raise InvalidInput("data option 'activities'", ",".join(asked), f"distinct numbers of {', '.join(known)}")
        numbers = [int(text) for text in asked]
    else:
        found, counts = np.unique(activity, return_counts=True)
        # stable sort of the negated counts: most windows first, ties by the publisher's number
        numbers = sorted(found[np.argsort(-counts, kind="stable")][:KEPT_CLASSES].tolist())
    kept = np.flatnonzero(np.isin(activity, numbers))
    if len(kept) == 0:
        raise InvalidInput(str(where), "no window of 2 s", "longer recordings of the activities", _FIX)
    position = {number: at for at, number in enumerate(numbers)}
    y = np.array([position[number] for number in activity[kept].tolist()], dtype=np.int64)
    return kept, y, tuple(ACTIVITIES[number] for number in numbers)
