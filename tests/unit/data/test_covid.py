"""The COVID-19 X-ray set in its publisher's folders: classes by word, resized, grey unless asked otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.data.covid import load
from tests.support.datafiles import write_covid, write_image


def test_the_publishers_folders_become_four_classes_of_grey_224_images(tmp_path: Path) -> None:
    """Shades 25, 75, 125, 175 in the order of the classes; JPEG may move a shade by one."""
    write_covid(tmp_path)
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.classes == ("covid", "normal", "bacterial", "viral")
    assert dataset.x.shape == (8, 1, 224, 224)
    assert dataset.y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for image, label in zip(dataset.x, dataset.y.tolist(), strict=True):
        assert abs(float(image.mean()) - (25 + 50 * label)) <= 1.0


def test_size_channels_and_place_can_be_chosen(tmp_path: Path) -> None:
    base = write_covid(tmp_path)
    base.rename(tmp_path / "xrays")
    options = {"folder": "xrays", "size": "64", "channels": "3", "group": r"\(([0-9]+)\)"}
    dataset = load(DataOptions(root=tmp_path, options=options))
    assert dataset.input_shape == (3, 64, 64)
    assert dataset.group.tolist() == [0, 1] * 4


def test_absent_and_ambiguous_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Curated X-Ray Dataset: got no such folder.*folder="):
        load(DataOptions(root=tmp_path))
    base = write_covid(tmp_path)
    write_image(base / "covid-viral" / "1.png")
    with pytest.raises(InvalidInput, match="one folder for each class"):
        load(DataOptions(root=tmp_path))
    (base / "covid-viral").rename(base / "other")
    (base / "Normal").rename(base / "healthy")
    with pytest.raises(InvalidInput, match="no folder with 'normal' in its name"):
        load(DataOptions(root=tmp_path))
