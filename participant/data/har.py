"""UCI HAR: smartphone activity windows of 30 people, read from `uci_har.npz`, with their recordings recovered.

Published windows overlap by half and are shuffled, so a random split would put the same raw seconds on both sides.
This module finds which window follows which (equal halves) and gives every chain of windows one group.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data.archive import read_archive
from participant.data.base import DataOptions, Dataset, numbered

FILE_NAME = "uci_har.npz"
CLASSES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
_CHANNELS, _WINDOW = 9, 128
_STEP = _WINDOW // 2
_FIX = "Set FEDAP_DATA or the data root to the folder that holds it."


def load(options: DataOptions) -> Dataset:
    """Load (n, 9, 128) float32: body acceleration (g), angular rate (rad/s), total acceleration (g), 50 Hz, as
    published."""
    options.require_known("har")
    path = options.folder / FILE_NAME
    archive = read_archive(path, names=("x", "y", "subject"), fix=_FIX)
    windows = archive.array("x", shape=(None, _CHANNELS, _WINDOW))
    if windows.dtype.kind != "f":
        raise InvalidInput(f"{path}: x", f"dtype {windows.dtype}", "floating-point windows")
    y = archive.integers("y", shape=(len(windows),))
    site, names = numbered(archive.integers("subject", shape=(len(windows),)))
    group, position = chains(windows, site)
    start = position * _STEP
    return Dataset(
        name="har",
        x=windows.astype(np.float32),
        y=y,
        classes=CLASSES,
        group=group,
        preprocessing=Preprocessing(steps=("UCI HAR inertial windows", "acceleration in g", "angular rate in rad/s")),
        span=np.stack((start, start + _WINDOW), axis=1),
        site=site,
        site_names=tuple(f"subject-{name}" for name in names),
        overlapping=True,
    )


def chains(windows: NDArray[np.generic], subject: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the chain of each window, (n,), and its position in the chain, (n,).

    B follows A if A's second half equals B's first half bit for bit and both are from one person. All windows joined by
    equal halves share one chain, whose number is that of its first window. Law: within a chain, equal halves have
    equal raw time steps, so a cut in time never leaves a half on both sides. If halves repeat in a way that no order
    explains (a sensor at rest), the whole chain gets position 0: its windows then stay together.
    """
    halves = _half_numbers(windows, subject)
    chain = np.full(len(windows), -1, dtype=np.int64)
    place = np.zeros(len(windows), dtype=np.int64)
    touching: dict[int, list[int]] = defaultdict(list)
    for window, (first, second) in enumerate(halves):
        touching[first].append(window)
        touching[second].append(window)
    for start in range(len(windows)):
        if chain[start] >= 0:
            continue
        levels, members = _levels(halves, touching, start)
        chain[members] = start
        if all(levels[second] == levels[first] + 1 for first, second in (halves[member] for member in members)):
            lowest = min(levels.values())
            place[members] = [levels[halves[member][0]] - lowest for member in members]
    return chain, place


def _half_numbers(windows: NDArray[np.generic], subject: IndexArray) -> list[tuple[int, int]]:
    """Return each window as (number of its first half, number of its second half); equal halves of one person share a
    number."""
    half = windows.shape[-1] // 2
    numbers: dict[tuple[int, bytes], int] = {}
    pairs = []
    for who, window in zip(subject.tolist(), windows, strict=True):
        first = numbers.setdefault((who, window[..., :half].tobytes()), len(numbers))
        second = numbers.setdefault((who, window[..., half:].tobytes()), len(numbers))
        pairs.append((first, second))
    return pairs


def _levels(
    halves: list[tuple[int, int]], touching: dict[int, list[int]], start: int
) -> tuple[dict[int, int], list[int]]:
    """Walk from one window over equal halves; return the time of each half reached (in halves), and the windows."""
    levels = {halves[start][0]: 0}
    pending = [halves[start][0]]
    members: set[int] = set()
    while pending:
        half = pending.pop()
        for window in touching[half]:
            members.add(window)
            first, second = halves[window]
            for other, level in ((second, levels[half] + 1), (first, levels[half] - 1)):
                if other != half and other not in levels:
                    levels[other] = level
                    pending.append(other)
    return levels, sorted(members)
