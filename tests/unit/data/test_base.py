"""A data set checks itself, and a source refuses an option it does not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data.base import DataOptions, Dataset, InputArray, named_labels, numbered


def dataset(
    *,
    x: InputArray | None = None,
    y: IndexArray | None = None,
    classes: tuple[str, ...] = ("a", "b"),
    group: IndexArray | None = None,
    span: IndexArray | None = None,
    site: IndexArray | None = None,
    site_names: tuple[str, ...] = (),
) -> Dataset:
    return Dataset(
        name="demo",
        x=np.arange(3 * 16, dtype=np.uint8).reshape(3, 1, 4, 4) if x is None else x,
        y=np.array([0, 1, 0]) if y is None else y,
        classes=classes,
        group=np.array([7, 7, 9]) if group is None else group,
        preprocessing=IMAGE_8BIT,
        span=span,
        site=site,
        site_names=site_names,
    )


def test_take_keeps_order_names_and_every_column() -> None:
    whole = dataset(span=np.array([[0, 2], [1, 3], [0, 2]]), site=np.array([0, 1, 1]), site_names=("north", "south"))
    part = whole.take(np.array([2, 0]))
    assert len(part) == 2
    assert part.input_shape == (1, 4, 4)
    assert part.x[0, 0, 0, 0] == 32  # sample 2 starts at 2 * 16
    assert part.y.tolist() == [0, 0]
    assert part.group.tolist() == [9, 7]
    assert part.span is not None
    assert part.span.tolist() == [[0, 2], [0, 2]]
    assert part.site is not None
    assert part.site.tolist() == [1, 0]
    assert part.site_names == ("north", "south")
    assert part.classes == ("a", "b")


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        (np.zeros((3, 1, 4), dtype=np.uint8), "shape"),
        (np.zeros((3, 4), dtype=np.float32), "shape"),
        (np.zeros((0, 1, 4, 4), dtype=np.uint8), "shape"),
        (np.zeros((3, 1, 4), dtype=np.float64), "dtype float64"),
        (np.array([[[0.0]], [[np.nan]], [[np.inf]]], dtype=np.float32), "NaN or infinity in sample 1"),
    ],
)
def test_wrong_inputs_are_refused(x: InputArray, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        dataset(x=x)
    assert caught.value.field == "demo: x"


def test_values_lie_in_memory_in_the_order_of_their_axes() -> None:
    turned = np.arange(3 * 2 * 5, dtype=np.float32).reshape(5, 2, 3).T
    stored = dataset(x=turned).x
    assert stored.flags.c_contiguous
    assert np.array_equal(stored, turned)


def test_float_images_are_allowed() -> None:
    assert dataset(x=np.zeros((3, 1, 4, 4), dtype=np.float32)).input_shape == (1, 4, 4)


@pytest.mark.parametrize(("labels", "shown"), [([0, 1, 2], "values from 0 to 2"), ([0, -1, 0], "values from -1 to 0")])
def test_labels_out_of_range_are_refused(labels: list[int], shown: str) -> None:
    with pytest.raises(InvalidInput, match=shown) as caught:
        dataset(y=np.array(labels))
    assert caught.value.field == "demo: y"


def test_columns_of_another_length_or_dtype_are_refused() -> None:
    with pytest.raises(InvalidInput, match="demo: group"):
        dataset(group=np.array([1, 2]))
    with pytest.raises(InvalidInput, match="demo: y"):
        dataset(y=np.array([0, 1, 0], dtype=np.int32))
    with pytest.raises(InvalidInput, match="demo: span"):
        dataset(span=np.array([[0, 1], [2, 2], [0, 1]]))
    with pytest.raises(InvalidInput, match="demo: span"):
        dataset(span=np.array([[0, 1], [-1, 2], [0, 1]]))
    with pytest.raises(InvalidInput, match="demo: site"):
        dataset(site=np.array([0, 0, 1]), site_names=("only",))
    with pytest.raises(InvalidInput, match="demo: site_names"):
        dataset(site_names=("only",))
    with pytest.raises(InvalidInput, match="demo: classes"):
        dataset(classes=("a", "a"))


def test_root_comes_from_the_argument_then_the_environment_then_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("FEDAP_DATA", "/data/sets")
    assert DataOptions(root=Path("~/mine")).folder == Path("/home/somebody/mine")
    assert DataOptions().folder == Path("/data/sets")
    monkeypatch.delenv("FEDAP_DATA")
    assert DataOptions().folder == Path("/home/somebody/.cache/fedap")


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    options = DataOptions(options={"siez": "64"})
    with pytest.raises(InvalidInput, match="Did you mean 'size'"):
        options.require_known("organamnist", ("size", "label"))
    with pytest.raises(InvalidInput, match="no options at all"):
        options.require_known("watch")


@pytest.mark.parametrize("text", ["3.5", "0", "99", ""])
def test_a_whole_number_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="data option 'size'"):
        DataOptions(options={"size": text}).integer("size", 1, minimum=1, maximum=9)


@pytest.mark.parametrize("text", ["nan", "2", "-0.1", "x"])
def test_a_number_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="data option 'shift'"):
        DataOptions(options={"shift": text}).number("shift", 0.5, minimum=0.0, maximum=1.0)


def test_option_readers_take_text_and_fall_back_to_defaults() -> None:
    options = DataOptions(options={"size": "64", "shift": "0.25", "shape": "3x8X9", "names": "a, b"})
    assert options.integer("size", 28, minimum=1) == 64
    assert options.integer("other", 28, minimum=1) == 28
    assert options.number("shift", 0.0, minimum=0.0, maximum=1.0) == 0.25
    assert options.shape("shape", (1, 1), dims=(2, 3)) == (3, 8, 9)
    assert options.texts("names") == ("a", "b")
    assert options.texts("other") == ()
    assert options.text("other", "x") == "x"


@pytest.mark.parametrize("text", ["3", "0x4", "axb", "1x2x3x4", ""])
def test_a_malformed_shape_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="joined by x"):
        DataOptions(options={"shape": text}).shape("shape", (1, 1), dims=(2, 3))


def test_an_empty_list_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match="separated by commas"):
        DataOptions(options={"classes": " , "}).texts("classes")


def test_numbers_sort_as_numbers_and_text_as_text() -> None:
    positions, names = numbered(np.array([10, 2, 10]))
    assert (positions.tolist(), names) == ([1, 0, 1], ("2", "10"))
    positions, names = numbered(np.array(["b", "a", "b"]))
    assert (positions.tolist(), names) == ([1, 0, 1], ("a", "b"))


def test_listed_labels_keep_their_order_even_when_one_is_absent() -> None:
    y, classes = named_labels(np.array(["sick", "well", "sick"]), ("well", "dead", "sick"), "here")
    assert (y.tolist(), classes) == ([2, 0, 2], ("well", "dead", "sick"))
    with pytest.raises(InvalidInput, match="one of well"):
        named_labels(np.array(["odd"]), ("well",), "here")
