"""MedMNIST by flag: what the package's table says, how an archive becomes a data set, and the real OrganAMNIST."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data import DataOptions, load_dataset
from participant.data.archive import read_archive
from participant.data.medmnist_sets import FLAGS, assemble, load, lookup
from tests.support.datafiles import real_data, write_medmnist

ORGAN_A_MD5 = "68e3f8846a6bd62f0c9bf841c0d9eacc"


@pytest.fixture(scope="module")
def table() -> Mapping[str, Any]:
    """The package's own. It loads pandas and scikit-learn with it: seconds, for those who run these tests alone."""
    from medmnist.info import INFO

    found: Mapping[str, Any] = INFO
    return found


def test_flags_are_exactly_the_2d_single_label_sets_of_the_package(table: Mapping[str, Any]) -> None:
    expected = {flag for flag, entry in table.items() if not flag.endswith("3d") and "multi-label" not in entry["task"]}
    assert set(FLAGS) == expected
    assert len(FLAGS) == 11


def test_every_set_is_either_offered_or_refused_by_name(table: Mapping[str, Any]) -> None:
    for flag in table:
        if flag not in FLAGS:
            with pytest.raises(InvalidInput, match=r"multi-label|3-D"):
                load_dataset(flag)


def test_the_table_gives_url_md5_and_class_names_of_each_size() -> None:
    small, large = lookup("organamnist", 28), lookup("organamnist", 64)
    assert small.file.name == "organamnist.npz"
    assert small.file.md5 == ORGAN_A_MD5
    assert large.file.name == "organamnist_64.npz"
    assert large.file.md5 != small.file.md5
    assert small.classes[:3] == ("bladder", "femur-left", "femur-right")
    assert len(small.classes) == 11
    assert (small.channels, lookup("bloodmnist", 28).channels) == (1, 3)


@pytest.mark.parametrize(("flag", "channels"), [("organcmnist", 1), ("bloodmnist", 3)])
def test_the_three_splits_are_pooled_in_order(flag: str, channels: int, tmp_path: Path) -> None:
    published = lookup(flag, 28)
    classes = len(published.classes)
    write_medmnist(tmp_path / "set.npz", counts=(5, 2, 3), size=28, channels=channels, classes=classes)
    archive = read_archive(tmp_path / "set.npz")
    dataset = assemble(flag, archive, published, 28)
    assert dataset.x.shape == (10, channels, 28, 28)
    assert dataset.x.dtype == np.uint8
    assert dataset.preprocessing == IMAGE_8BIT
    assert dataset.group.tolist() == list(range(10))
    test_images = archive.array("test_images")
    last = test_images[-1] if channels == 1 else test_images[-1, :, :, 2]
    assert np.array_equal(dataset.x[-1, -1], last)
    assert dataset.y[5:7].tolist() == archive.integers("val_labels", shape=(2, 1))[:, 0].tolist()


def test_wrong_shapes_and_labels_name_the_file(tmp_path: Path) -> None:
    published = lookup("organcmnist", 28)
    path = tmp_path / "organcmnist.npz"
    write_medmnist(path, counts=(2, 2, 2), size=64, channels=1, classes=11)
    with pytest.raises(InvalidInput, match=r"organcmnist.npz: train_images: got shape \(2, 64, 64\)"):
        assemble("organcmnist", read_archive(path), published, 28)
    write_medmnist(path, counts=(200, 2, 2), size=28, channels=1, classes=40)
    with pytest.raises(InvalidInput, match="y: got values from 0 to 39"):
        assemble("organcmnist", read_archive(path), published, 28)


def test_images_that_are_not_8_bit_are_refused(tmp_path: Path) -> None:
    images, labels = np.zeros((1, 28, 28)), np.zeros((1, 1), dtype=np.uint8)
    arrays = {
        f"{split}_{kind}": array
        for split in ("train", "val", "test")
        for kind, array in (("images", images), ("labels", labels))
    }
    np.savez(tmp_path / "set.npz", allow_pickle=False, **arrays)
    with pytest.raises(InvalidInput, match="train_images: got dtype float64, expected uint8"):
        assemble("organcmnist", read_archive(tmp_path / "set.npz"), lookup("organcmnist", 28), 28)


def test_a_size_the_package_does_not_list_is_an_old_package() -> None:
    """The 3-D sets come in 28 and 64 only, so 224 is an entry that the table lacks."""
    with pytest.raises(InvalidInput, match=r"no entry 'url_224' for organmnist3d.*pip install"):
        lookup("organmnist3d", 224)


def test_another_file_under_the_official_name_is_refused_by_md5(tmp_path: Path) -> None:
    write_medmnist(tmp_path / "organamnist.npz", counts=(2, 2, 2), size=28, channels=1, classes=11)
    with pytest.raises(InvalidInput, match=f"expected MD5 {ORGAN_A_MD5}"):
        load("organamnist", DataOptions(root=tmp_path))


def test_a_missing_file_is_asked_for_with_url_md5_and_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load("organamnist", DataOptions(root=tmp_path, download=False))
    message = str(caught.value)
    assert "organamnist.npz?download=1" in message
    assert ORGAN_A_MD5 in message
    assert str(tmp_path / "organamnist.npz") in message


def test_sizes_nobody_published_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="one of 28, 64, 128, 224"):
        load("organamnist", DataOptions(root=tmp_path, options={"size": "32"}))


def test_the_real_organamnist_has_58830_images_in_11_classes() -> None:
    """34,561 + 6,491 + 17,778 = 58,830, as the publisher counts them."""
    dataset = load("organamnist", DataOptions(root=real_data("organamnist.npz"), download=False))
    assert dataset.x.shape == (58_830, 1, 28, 28)
    assert np.bincount(dataset.y).tolist() == [3313, 2407, 2375, 2651, 6595, 6419, 10482, 6699, 6751, 5182, 5956]
