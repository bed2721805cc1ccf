"""Image folders: one sub-folder per class, sizes, channels, patients and sites from paths, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data import DataOptions, Dataset, load_dataset
from tests.support.datafiles import truncate, write_image


def loaded(path: Path, **options: str) -> Dataset:
    return load_dataset(str(path), DataOptions(options=options))


def test_sub_folders_are_classes_and_paths_are_sorted(tmp_path: Path) -> None:
    for name, value in (("well/2.png", 2), ("well/1.png", 1), ("sick/deep/3.png", 3)):
        write_image(tmp_path / name, value=value)
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").mkdir()
    dataset = loaded(tmp_path)
    assert dataset.classes == ("sick", "well")
    assert dataset.x.shape == (3, 1, 16, 20)
    assert dataset.x[:, 0, 0, 0].tolist() == [3, 1, 2]
    assert dataset.y.tolist() == [0, 1, 1]
    assert dataset.preprocessing == IMAGE_8BIT


def test_stated_classes_keep_their_order_for_hospitals_that_lack_one(tmp_path: Path) -> None:
    write_image(tmp_path / "sick" / "1.png")
    dataset = loaded(tmp_path, classes="well,sick")
    assert dataset.classes == ("well", "sick")
    assert dataset.y.tolist() == [1]
    with pytest.raises(InvalidInput, match="a sub-folder 'sick'"):
        loaded(tmp_path, classes="well,ill")


def test_one_colour_image_makes_all_of_them_colour(tmp_path: Path) -> None:
    write_image(tmp_path / "a" / "1.png", mode="RGB", value=7)
    write_image(tmp_path / "a" / "2.png", mode="L", value=9)
    dataset = loaded(tmp_path)
    assert dataset.input_shape == (3, 16, 20)
    assert dataset.x[1, :, 0, 0].tolist() == [9, 9, 9]
    assert loaded(tmp_path, channels="1").input_shape == (1, 16, 20)
    with pytest.raises(InvalidInput, match=r"1 \(grey\) or 3"):
        loaded(tmp_path, channels="2")


def test_rows_stay_rows_and_channels_stay_channels(tmp_path: Path) -> None:
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[1, 5] = (10, 20, 30)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "1.png")
    assert loaded(tmp_path).x[0, :, 1, 5].tolist() == [10, 20, 30]


def test_different_sizes_need_a_size_which_then_enters_the_preprocessing(tmp_path: Path) -> None:
    write_image(tmp_path / "a" / "1.png", size=(20, 16))
    write_image(tmp_path / "a" / "2.png", size=(30, 16))
    with pytest.raises(InvalidInput, match=r"2.png: got 30x16 pixels, expected 20x16 pixels like 1.png.*size=224"):
        loaded(tmp_path)
    dataset = loaded(tmp_path, size="8")
    assert dataset.x.shape == (2, 1, 8, 8)
    assert set(dataset.x.ravel().tolist()) == {100}
    assert dataset.preprocessing.digest not in (IMAGE_8BIT.digest, loaded(tmp_path, size="9").preprocessing.digest)


def test_patients_and_sites_are_captured_from_the_path(tmp_path: Path) -> None:
    for name in ("a/north_person3_1.png", "a/south_person1_1.png", "b/north_person3_2.png"):
        write_image(tmp_path / name)
    dataset = loaded(tmp_path, group="(person[0-9]+)", site="/([a-z]+)_")
    assert dataset.group.tolist() == [1, 0, 1]
    assert dataset.site_names == ("north", "south")
    assert dataset.site is not None
    assert dataset.site.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [("person[0-9]+", "with one group"), ("(person", "a regular expression"), ("(patient)", "does not match")],
)
def test_a_pattern_that_captures_nothing_is_refused(pattern: str, complaint: str, tmp_path: Path) -> None:
    write_image(tmp_path / "a" / "person1.png")
    with pytest.raises(InvalidInput, match=complaint):
        loaded(tmp_path, group=pattern)


def test_damaged_foreign_and_16_bit_images_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a" / "1.png"
    write_image(path, size=(200, 200))
    truncate(path)
    with pytest.raises(InvalidInput, match=r"a/1.png: got a damaged image"):
        loaded(tmp_path)
    path.write_text("not an image")
    with pytest.raises(InvalidInput, match=r"a/1.png: got a damaged image"):
        loaded(tmp_path)
    write_image(path, mode="I;16", value=40_000)
    with pytest.raises(InvalidInput, match=r"pixel format I;16.*8-bit"):
        loaded(tmp_path)


def test_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no sub-folders"):
        loaded(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(InvalidInput, match="no images"):
        loaded(tmp_path)
