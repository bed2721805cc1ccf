"""Chest X-rays: grey images whose group is the patient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.data.chest import load
from tests.support.datafiles import real_data, write_chest


def test_patients_are_groups_and_images_get_a_channel(tmp_path: Path) -> None:
    write_chest(tmp_path / "chest_xray_64.npz", labels=[0, 1, 2, 1], patients=[4, 9, 9, 12])
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.x.shape == (4, 1, 64, 64)
    assert dataset.x.dtype == np.uint8
    assert dataset.group.tolist() == [4, 9, 9, 12]
    assert [dataset.classes[label] for label in dataset.y] == ["normal", "bacterial", "viral", "bacterial"]
    assert dataset.site is None


def test_a_patient_column_of_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chest_xray_64.npz"
    write_chest(path, labels=[0, 1], patients=[4, 9, 9])
    with pytest.raises(InvalidInput, match=r"chest_xray_64.npz: patient: got shape \(3,\)"):
        load(DataOptions(root=tmp_path))


def test_an_unknown_label_is_refused(tmp_path: Path) -> None:
    write_chest(tmp_path / "chest_xray_64.npz", labels=[0, 3], patients=[4, 9])
    with pytest.raises(InvalidInput, match="y: got values from 0 to 3"):
        load(DataOptions(root=tmp_path))


def test_float_images_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "chest_xray_64.npz", x=np.zeros((1, 64, 64)), y=np.zeros(1, np.uint8), patient=np.zeros(1, int))
    with pytest.raises(InvalidInput, match="uint8"):
        load(DataOptions(root=tmp_path))


def test_the_real_file_has_979_patients_with_both_pneumonias() -> None:
    """The reason why images are split by patient: a random split would show the same lungs on both sides."""
    dataset = load(DataOptions(root=real_data("chest_xray_64.npz")))
    assert np.bincount(dataset.y).tolist() == [1583, 2780, 1493]
    assert len(np.unique(dataset.group)) == 3118
    both = np.intersect1d(dataset.group[dataset.y == 1], dataset.group[dataset.y == 2])
    assert len(both) == 979
