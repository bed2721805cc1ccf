"""A cohort made in a process of its own, while this one does something else: loading torch takes longer than most data.

What making it took is gone with that process. The arrays lie in memory that both see; nothing is decided here.
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
"""Bytes; where an array starts, as numpy and torch have them."""

_Array = NDArray[Any]


class BackgroundCohort:
    """Begun when built; `take` waits for it."""

    def __init__(self, settings: CohortSettings, seed: int) -> None:
        self._memory = _shared_memory()
        self._task = ChildTask(lambda: _put(self._memory, make_cohort(settings, seed)))

    def take(self) -> Cohort:
        """The cohort, once."""
        try:
            self._task.wait()
            return _get(self._memory)
        finally:
            os.close(self._memory)

    def abandon(self) -> None:
        """Nobody will take it."""
        self._task.abandon()
        os.close(self._memory)


def _shared_memory() -> int:
    """A file without a name, in memory where the system can do that."""
    if sys.platform == "linux":
        return os.memfd_create("cohort")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _put(memory: int, cohort: Cohort) -> None:
    """A line of JSON that says what is where, then the arrays."""
    arrays = dict(_arrays(cohort))
    data, end = cohort.data, 0
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, array in arrays.items():
        places[name] = (array.dtype.str, array.shape, end)
        end += -(-array.nbytes // _ALIGNED) * _ALIGNED
    told = {
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
    text = json.dumps(told).encode() + b"\n"
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
    told = json.loads(text)
    arrays: dict[str, _Array] = {
        name: np.frombuffer(place, kind, int(np.prod(shape)), len(text) + first).reshape(shape)
        for name, (kind, shape, first) in told["arrays"].items()
    }
    about = told["data"]
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
        for number, (name, splits) in enumerate(told["clients"])
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
