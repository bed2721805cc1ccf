"""Makes a cohort in a child process while this process does other work, such as loading torch.

Loading torch takes longer than loading most data sets, and the memory needed to make the cohort is freed when the child
ends. The arrays are passed in shared memory; nothing is decided here.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedap_core.preprocessing import Preprocessing
from participant.data.base import Dataset
from scripts.run.cohort import Client, Cohort, make_cohort
from scripts.run.forked import ChildTask
from scripts.run.settings import CohortSettings

_ALIGNED = 64
"""Bytes; every array starts at a multiple of this, as in numpy and torch."""

_Array = NDArray[Any]


class BackgroundCohort:
    """A cohort whose making starts with the constructor; `take` waits for it."""

    def __init__(self, settings: CohortSettings, seed: int) -> None:
        self._memory = _shared_memory()
        self._task = ChildTask(lambda: _put(self._memory, make_cohort(settings, seed)))

    def take(self) -> Cohort:
        """Wait for the cohort and return it; may be called once."""
        try:
            self._task.wait()
            return _get(self._memory)
        finally:
            os.close(self._memory)

    def abandon(self) -> None:
        """Stop making the cohort."""
        self._task.abandon()
        os.close(self._memory)


def _shared_memory() -> int:
    """Open an unnamed file, in memory if the system supports that, and return its descriptor."""
    if sys.platform == "linux":
        return os.memfd_create("cohort")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _put(memory: int, cohort: Cohort) -> None:
    """Write one line of JSON that describes the cohort and the place of each array, then the arrays."""
    arrays = dict(_arrays(cohort))
    data, end = cohort.data, 0
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, array in arrays.items():
        places[name] = (array.dtype.str, array.shape, end)
        end += -(-array.nbytes // _ALIGNED) * _ALIGNED
    described = {
        "arrays": places,
        "clients": [[client.name, list(client.splits)] for client in cohort.clients],
        "data": {
            "name": data.name,
            "classes": data.classes,
            "site_names": data.site_names,
            "overlapping": data.overlapping,
            "preprocessing": data.preprocessing.to_list(),
        },
    }
    text = json.dumps(described).encode() + b"\n"
    text = text.rjust(-(-len(text) // _ALIGNED) * _ALIGNED)
    os.ftruncate(memory, len(text) + end)
    with mmap.mmap(memory, len(text) + end) as place:
        place.write(text)
        for name, array in arrays.items():
            first = len(text) + places[name][2]
            np.frombuffer(place, array.dtype, array.size, first).reshape(array.shape)[...] = array


def _get(memory: int) -> Cohort:
    place = mmap.mmap(memory, 0, access=mmap.ACCESS_COPY)
    text = place.readline()
    described = json.loads(text)
    arrays: dict[str, _Array] = {
        name: np.frombuffer(place, kind, int(np.prod(shape)), len(text) + first).reshape(shape)
        for name, (kind, shape, first) in described["arrays"].items()
    }
    about = described["data"]
    data = Dataset(
        name=about["name"],
        x=arrays["x"],
        y=arrays["y"],
        classes=tuple(about["classes"]),
        group=arrays["group"],
        preprocessing=Preprocessing.from_list(about["preprocessing"]),
        span=arrays.get("span"),
        site=arrays.get("site"),
        site_names=tuple(about["site_names"]),
        overlapping=about["overlapping"],
    )
    clients = tuple(
        Client(name=name, splits={split: arrays[f"{number}/{split}"] for split in splits})
        for number, (name, splits) in enumerate(described["clients"])
    )
    return Cohort(data=data, clients=clients)


def _arrays(cohort: Cohort) -> Iterator[tuple[str, _Array]]:
    data = cohort.data
    for name, array in (("x", data.x), ("y", data.y), ("group", data.group), ("span", data.span), ("site", data.site)):
        if array is not None:
            yield name, array
    for number, client in enumerate(cohort.clients):
        for split, positions in client.splits.items():
            yield f"{number}/{split}", positions
