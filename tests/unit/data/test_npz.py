"""Users' own arrays: the layouts that are understood, and one-line errors for those that are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data import DataOptions, Dataset, load_dataset


def loaded(path: Path, **arrays: NDArray[np.generic]) -> Dataset:
    np.savez(path / "mine.npz", allow_pickle=True, **arrays)
    return load_dataset(str(path / "mine.npz"))


@pytest.mark.parametrize(
    ("stored", "shape"),
    [((2, 8, 9), (1, 8, 9)), ((2, 3, 8, 9), (3, 8, 9)), ((2, 8, 9, 3), (3, 8, 9)), ((2, 8, 9, 1), (1, 8, 9))],
)
def test_images_come_out_channels_first(stored: tuple[int, ...], shape: tuple[int, ...], tmp_path: Path) -> None:
    dataset = loaded(tmp_path, x=np.zeros(stored, dtype=np.uint8), y=np.array([0, 1]))
    assert dataset.input_shape == shape
    assert dataset.preprocessing == IMAGE_8BIT
    assert dataset.name == "mine"
    assert dataset.classes == ("class 0", "class 1")
    assert dataset.group.tolist() == [0, 1]


def test_channels_last_moves_the_right_values(tmp_path: Path) -> None:
    image = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    dataset = loaded(tmp_path, x=image, y=np.array([0, 1]))
    assert dataset.x[1, 2, 3, 4] == image[1, 3, 4, 2]


@pytest.mark.parametrize(("stored", "shape"), [((2, 7), (1, 7)), ((2, 3, 7), (3, 7)), ((2, 1, 6, 7), (1, 6, 7))])
def test_numbers_come_out_as_float32_and_unscaled(
    stored: tuple[int, ...], shape: tuple[int, ...], tmp_path: Path
) -> None:
    dataset = loaded(tmp_path, x=np.full(stored, 0.5), y=np.array([1, 0]))
    assert dataset.x.dtype == np.float32
    assert dataset.input_shape == shape
    assert dataset.preprocessing.is_identity


def test_text_labels_follow_the_stored_class_order(tmp_path: Path) -> None:
    x = np.zeros((3, 4, 4), dtype=np.uint8)
    y = np.array(["sick", "well", "sick"])
    assert loaded(tmp_path, x=x, y=y).classes == ("sick", "well")
    listed = loaded(tmp_path, x=x, y=y, classes=np.array(["well", "sick", "unsure"]))
    assert listed.classes == ("well", "sick", "unsure")
    assert listed.y.tolist() == [1, 0, 1]


def test_a_file_may_lack_classes_that_others_have(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, x=np.zeros((3, 4, 4), dtype=np.uint8), y=np.array([0, 7, 0]))
    assert dataset.y.tolist() == [0, 7, 0]
    assert dataset.classes == tuple(f"class {number}" for number in range(8))


def test_a_patient_is_a_group_and_a_subject_is_a_site(tmp_path: Path) -> None:
    x = np.zeros((3, 4, 4), dtype=np.uint8)
    y = np.array([[0], [1], [0]])
    dataset = loaded(tmp_path, x=x, y=y, patient=np.array(["b", "a", "b"]), subject=np.array([30, 4, 4]))
    assert dataset.group.tolist() == [1, 0, 1]
    assert dataset.site_names == ("4", "30")
    assert dataset.site is not None
    assert dataset.site.tolist() == [1, 0, 0]


def test_spans_and_group_numbers_are_kept(tmp_path: Path) -> None:
    span = np.array([[0, 8], [4, 12]])
    dataset = loaded(tmp_path, x=np.zeros((2, 3, 8)), y=np.array([0, 0]), group=np.array([70, 70]), span=span)
    assert dataset.group.tolist() == [70, 70]
    assert dataset.span is not None
    assert dataset.span.tolist() == span.tolist()


def test_images_are_resized_as_image_files_are_where_the_model_file_asks_for_it(tmp_path: Path) -> None:
    """The same pixels as PNG files and as arrays, grey and in colour, give the same inputs and preprocessing."""
    images = np.random.default_rng(0).integers(0, 256, (4, 20, 30, 3), dtype=np.uint8)
    for number, image in enumerate(images):
        folder = tmp_path / "files" / f"class {number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number}.png")
    order = [0, 2, 1, 3]  # of the files: class by class
    for channels in ("1", "3"):
        files = load_dataset(str(tmp_path / "files"), DataOptions(options={"size": "16", "channels": channels}))
        np.savez(tmp_path / "mine.npz", allow_pickle=False, x=images[order], y=np.array([0, 0, 1, 1]))
        arrays = load_dataset(str(tmp_path / "mine.npz"), DataOptions(recipe=dict(files.preprocessing.recipe)))
        assert arrays.x.shape == (4, int(channels), 16, 16)
        assert arrays.x.tobytes() == files.x.tobytes()
        assert arrays.preprocessing == files.preprocessing


@pytest.mark.parametrize("x", [np.zeros((2, 3, 40)), np.zeros((2, 2, 8, 8), dtype=np.uint8)], ids=["numbers", "planes"])
def test_what_is_no_image_is_not_resized(tmp_path: Path, x: NDArray[np.generic]) -> None:
    np.savez(tmp_path / "mine.npz", allow_pickle=False, x=x, y=np.array([0, 1]))
    recipe = {"format": "images", "size": "16", "channels": "1"}
    assert load_dataset(str(tmp_path / "mine.npz"), DataOptions(recipe=recipe)).input_shape == x.shape[1:]


IMAGES = np.zeros((2, 4, 4), dtype=np.uint8)
LABELS = np.array([0, 1])


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x": IMAGES}, "an array named 'y'"),
        ({"y": LABELS}, "an array named 'x'"),
        ({"x": IMAGES, "y": np.array([0, 1, 1])}, "one label per sample"),
        ({"x": IMAGES, "y": np.array([0.0, 1.0])}, "whole numbers from 0"),
        ({"x": IMAGES, "y": np.array([0, -1])}, "values from -1 to 0"),
        ({"x": IMAGES, "y": np.array([0, 2]), "classes": np.array(["a", "b"])}, "values from 0 to 2"),
        (
            {"x": IMAGES, "y": np.array([0, 70_000])},
            "a label 70000, expected numbers of classes, from 0 to 999. Store the names",
        ),
        ({"x": np.zeros(2, dtype=np.uint8), "y": LABELS}, "images"),
        ({"x": np.zeros(2), "y": LABELS}, r"\(n, T\)"),
        ({"x": np.array([["a"], ["b"]]), "y": LABELS}, "uint8 images or numbers"),
        ({"x": np.array([[np.nan], [0.0]]), "y": LABELS}, "NaN or infinity in sample 0"),
        ({"x": np.array([[0.0], [1e39]]), "y": LABELS}, "NaN or infinity in sample 1"),
        ({"x": IMAGES, "y": LABELS, "group": LABELS, "patient": LABELS}, "only one of them"),
        ({"x": IMAGES, "y": LABELS, "site": np.array([0.5, 1.0])}, "whole numbers or text"),
        ({"x": IMAGES, "y": LABELS, "span": np.array([[0, 1]])}, "span"),
        ({"x": IMAGES, "y": np.array([{}, {}], dtype=object)}, "without pickles"),
        ({"x": IMAGES[:0], "y": LABELS[:0]}, "empty axis"),
    ],
)
def test_arrays_outside_the_contract_are_refused_by_name(
    arrays: dict[str, NDArray[np.generic]], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        loaded(tmp_path, **arrays)
    assert "mine" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_refused_because_there_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=IMAGES, y=LABELS)
    with pytest.raises(InvalidInput, match="no options at all"):
        load_dataset(str(tmp_path / "mine.npz"), DataOptions(options={"size": "3"}))
