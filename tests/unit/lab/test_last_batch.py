"""The experiment on small last batches: each treatment changes what it names and nothing else."""

from __future__ import annotations

from functools import cache

import numpy as np

from fedap_core.preprocessing import Preprocessing
from participant.data.base import Dataset
from scripts.experiments.last_batch import TREATMENTS, EpochCurve, table_of, train_client, worst_dip
from scripts.run.cohort import Client, Cohort

BATCH = 8


def cohort() -> Cohort:
    """One client with 18 training images, two full batches and a rest of two, and 12 test images."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 30)
    x = rng.normal(size=(30, 1, 28, 28)).astype(np.float32) + y[:, None, None, None].astype(np.float32)
    data = Dataset(
        name="tiny", x=x, y=y.astype(np.int64), classes=("a", "b", "c"), group=np.arange(30),
        preprocessing=Preprocessing(),
    )  # fmt: skip
    return Cohort(data=data, clients=(Client(name="c1", splits={"train": np.arange(18), "test": np.arange(18, 30)}),))


@cache
def curve(treatment: str) -> EpochCurve:
    return train_client(cohort(), 0, treatment=treatment, epochs=6, batch_size=BATCH, rate=0.05, seed=1)


def test_without_its_step_the_rest_leaves_the_weights_as_if_it_were_dropped() -> None:
    """Equal weights give equal accuracies once batch norm is re-estimated on the same samples."""
    assert curve("no step").reestimated == curve("dropped").reestimated


def test_without_its_statistics_the_rest_leaves_the_weights_of_a_plain_epoch() -> None:
    """Training normalises by the batch, so running statistics never reach a gradient."""
    assert curve("no statistics").reestimated == curve("reference").reestimated


def test_a_dip_is_measured_below_the_median_of_the_second_half() -> None:
    """Second half 90, 50, 92, 91: median 90.5, lowest 50. The first half, however low, does not count."""
    assert worst_dip((1.0, 2.0, 3.0, 4.0, 90.0, 50.0, 92.0, 91.0)) == 40.5


def test_the_table_has_a_row_for_every_treatment() -> None:
    assert table_of([curve(treatment) for treatment in TREATMENTS]).row_count == len(TREATMENTS)
    assert curve("even").rest == 2
