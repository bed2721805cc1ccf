"""Claims about a participant's samples as tensors: which memory they take."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from participant.data import load_dataset
from participant.data.base import DataOptions
from participant.training.home_data import HomeData


def home() -> HomeData:
    return HomeData(dataset=load_dataset("synthetic", DataOptions(options={"samples": "40"})))


def positions(*numbers: int) -> IndexArray:
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize(
    "chosen", [positions(3, 4, 5), positions(7), positions(5, 4, 3), positions(0, 2), positions(1, 1)]
)
def test_samples_are_the_named_ones_in_their_order(chosen: IndexArray) -> None:
    data = home()
    found = data.samples(chosen)
    assert found.x.numpy().tobytes() == data.dataset.x[chosen].tobytes()
    assert found.y.tolist() == data.dataset.y[chosen].tolist()


def test_samples_that_follow_each_other_are_not_held_twice() -> None:
    data = home()
    assert np.shares_memory(data.samples(positions(3, 4, 5)).x.numpy(), data.dataset.x)
    assert not np.shares_memory(data.samples(positions(3, 5)).x.numpy(), data.dataset.x)


@pytest.mark.filterwarnings("error")
def test_data_that_may_only_be_read_are_copied_without_a_warning() -> None:
    data = home()
    data.dataset.x.flags.writeable = False
    assert not np.shares_memory(data.samples(positions(3, 4, 5)).x.numpy(), data.dataset.x)
