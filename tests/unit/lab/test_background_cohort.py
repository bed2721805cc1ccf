"""Claims about cohorts made in a process of their own: nothing is lost on the way, complaints included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset
from scripts.run.background_cohort import BackgroundCohort
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import CohortSettings


def recordings(options: DataOptions) -> Dataset:
    """Two recordings of 90 overlapping windows each, two sites whose names need care."""
    del options
    first = np.tile(np.arange(90, dtype=np.int64), 2)
    return Dataset(
        name="recordings",
        x=np.random.default_rng(1).standard_normal((180, 3, 8)).astype(np.float32),
        y=first % 2,
        classes=("rest", "é/\n"),
        group=np.repeat(np.array([7, 4], dtype=np.int64), 90),
        preprocessing=Preprocessing(scale=0.1, offset=1 / 3, steps=("cut", "scaled")),
        span=np.stack([first, first + 4], axis=1),
        site=np.repeat(np.array([0, 1], dtype=np.int64), 90),
        site_names=("a b", "ward-2"),
        overlapping=True,
    )


SETTINGS = {
    "images": CohortSettings(data="synthetic", data_options={"samples": "400"}, clients=3),
    "signals": CohortSettings(data="synthetic", data_options={"samples": "400", "shape": "2x20"}, partition="site"),
    "recordings": CohortSettings(data=f"{__name__}:recordings", partition="site", protocol="reference"),
}


def everything(cohort: Cohort) -> dict[str, object]:
    """All that a cohort holds, in a form that compares, with the types of its arrays."""
    data = cohort.data
    arrays = {name: getattr(data, name) for name in ("x", "y", "group", "span", "site")}
    for client in cohort.clients:
        arrays |= {f"{client.name} {split}": positions for split, positions in client.splits.items()}
    told = {
        name: None if array is None else (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()
    }
    names = [(client.name, list(client.splits)) for client in cohort.clients]
    words = (data.name, data.classes, data.site_names, data.overlapping, data.preprocessing)
    return {"arrays": told, "names": names, "words": words}


@pytest.mark.parametrize("kind", SETTINGS)
def test_cohort_made_apart_is_the_one_made_here(kind: str) -> None:
    settings = SETTINGS[kind]
    assert everything(BackgroundCohort(settings, 5).take()) == everything(make_cohort(settings, 5))


def test_arrays_start_where_vector_instructions_like_it() -> None:
    cohort = BackgroundCohort(SETTINGS["images"], 0).take()
    places = [cohort.data.x, cohort.data.y, *cohort.clients[1].splits.values()]
    assert [array.__array_interface__["data"][0] % 64 for array in places] == [0] * len(places)


def test_complaint_about_the_data_arrives_whole() -> None:
    settings = CohortSettings(data="synthetic", data_options={"sample": "400"})
    with pytest.raises(InvalidInput, match="samples") as caught:
        BackgroundCohort(settings, 0).take()
    with pytest.raises(InvalidInput) as expected:
        make_cohort(settings, 0)
    assert str(caught.value) == str(expected.value)


def test_cohort_that_nobody_wants_leaves_no_process_and_no_handle() -> None:
    handles, children = Path("/proc/self/fd"), Path(f"/proc/self/task/{os.getpid()}/children")
    before = len(list(handles.iterdir()))
    others = children.read_text()  # other tests of this process may have left servers running
    making = BackgroundCohort(CohortSettings(data="synthetic", data_options={"samples": "200000"}), 0)
    assert children.read_text() != others
    making.abandon()
    assert children.read_text() == others
    assert len(list(handles.iterdir())) == before


def test_data_are_divided_without_torch() -> None:
    """It would be loaded twice: by the process that makes the cohort, and by the one that waits for it."""
    code = "import sys, scripts.experiments.comparison, scripts.lab; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
