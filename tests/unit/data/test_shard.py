"""Shards read back exactly as they were written, with their split, and a failed write leaves what was there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data import DataOptions, Dataset, Split, load_dataset, read_shard, save_npz


def assert_equal(left: Dataset, right: Dataset) -> None:
    for field in dataclasses.fields(Dataset):
        first, second = getattr(left, field.name), getattr(right, field.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype, field.name
            assert np.array_equal(first, second), field.name
        else:
            assert first == second, field.name


SIGNALS = Dataset(
    name="knees µ",
    x=np.random.default_rng(0).standard_normal((4, 2, 5)).astype(np.float32),
    y=np.array([2, 0, 0, 2]),
    classes=("first", "second", "dritte, größte"),
    group=np.array([9, 9, 3, 3]),
    preprocessing=Preprocessing(scale=1 / 3, offset=-0.1, steps=("a", "b")),
    span=np.array([[0, 5], [2, 7], [0, 5], [10, 15]]),
    site=np.array([1, 1, 1, 1]),
    site_names=("absent", "here"),
    overlapping=True,
)


@pytest.mark.parametrize(
    "dataset",
    [
        SIGNALS,
        dataclasses.replace(SIGNALS, preprocessing=Preprocessing(), span=None, site=None, site_names=()),
        load_dataset("synthetic", DataOptions(options={"samples": "30"})),
    ],
)
def test_a_data_set_reads_back_as_it_was(dataset: Dataset, tmp_path: Path) -> None:
    save_npz(dataset, tmp_path / "shard.npz")
    shard = read_shard(tmp_path / "shard.npz")
    assert_equal(shard.dataset, dataset)
    assert shard.dataset.preprocessing.digest == dataset.preprocessing.digest
    assert shard.split is None
    assert_equal(load_dataset(str(tmp_path / "shard.npz")), dataset)
    assert [entry.name for entry in tmp_path.iterdir()] == ["shard.npz"]


@pytest.mark.parametrize("validation", [None, np.array([3])])
def test_the_split_travels_with_the_data(validation: IndexArray | None, tmp_path: Path) -> None:
    split = Split(train=np.array([0, 1]), test=np.array([2]), validation=validation)
    save_npz(SIGNALS, tmp_path / "shard.npz", split)
    found = read_shard(tmp_path / "shard.npz").split
    assert found is not None
    assert [(name, part.tolist()) for name, part in found.parts()] == [
        (name, part.tolist()) for name, part in split.parts()
    ]


def test_a_sample_on_two_sides_is_refused() -> None:
    with pytest.raises(InvalidInput, match="two parts"):
        Split(train=np.array([0, 1]), test=np.array([1]))
    with pytest.raises(InvalidInput, match="int64"):
        Split(train=np.array([0.5]), test=np.array([1]))


def test_positions_outside_the_data_are_refused_when_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "shard.npz"
    with pytest.raises(InvalidInput, match=r"shard.npz: test: got positions 4 to 4, expected 0 to 3"):
        save_npz(SIGNALS, path, Split(train=np.array([0]), test=np.array([4])))
    assert not path.exists()
    np.savez(path, x=SIGNALS.x, y=SIGNALS.y, train=np.array([-1]), test=np.array([0]))
    with pytest.raises(InvalidInput, match="train: got positions -1 to -1"):
        read_shard(path)


def test_half_a_split_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "shard.npz", x=SIGNALS.x, y=SIGNALS.y, train=np.array([0]))
    with pytest.raises(InvalidInput, match="an array named 'test'"):
        read_shard(tmp_path / "shard.npz")


def test_a_failed_write_leaves_the_old_shard(tmp_path: Path) -> None:
    """A name that numpy cannot store without pickle stops the write half way."""
    path = tmp_path / "shard.npz"
    save_npz(SIGNALS, path)
    before = path.read_bytes()
    unstorable = dataclasses.replace(SIGNALS, name=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="allow_pickle"):
        save_npz(unstorable, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["shard.npz"]
