"""Preprocessing: constants that are checked, and a digest by which parties compare."""

from __future__ import annotations

import json

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing


def test_8_bit_images_go_from_minus_one_to_one() -> None:
    assert isinstance(IMAGE_8BIT.scale, float)
    assert IMAGE_8BIT.offset == -1.0
    assert 255 * IMAGE_8BIT.scale - 1.0 == pytest.approx(1.0, abs=1e-15)
    assert not IMAGE_8BIT.is_identity


def test_doing_nothing_is_the_default() -> None:
    assert Preprocessing().is_identity
    assert not Preprocessing(scale=2.0).is_identity
    assert not Preprocessing(offset=0.5).is_identity


def test_digests_agree_exactly_when_everything_does() -> None:
    different = [
        Preprocessing(), IMAGE_8BIT, Preprocessing(scale=0.1), Preprocessing(scale=0.1 + 1e-17 * 2),
        Preprocessing(offset=0.1), Preprocessing(steps=("a",)), Preprocessing(steps=("a", "b")),
        Preprocessing(scale=(1.0, 2.0)), Preprocessing(scale=(2.0, 1.0)), Preprocessing(offset=(1.0, 2.0)),
    ]  # fmt: skip
    assert len({one.digest for one in different}) == len(different)
    assert Preprocessing(scale=0.5, steps=("a",)).digest == Preprocessing(scale=0.5, steps=("a",)).digest
    assert len(IMAGE_8BIT.digest) == 16


def test_whole_numbers_count_as_the_same_constants() -> None:
    assert Preprocessing(scale=2, offset=1).digest == Preprocessing(scale=2.0, offset=1.0).digest


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf")])
def test_a_scale_that_destroys_values_is_refused(scale: float) -> None:
    with pytest.raises(InvalidInput, match=r"preprocessing\.scale"):
        Preprocessing(scale=scale)


@pytest.mark.parametrize("offset", [float("nan"), float("-inf")])
def test_an_offset_that_is_not_finite_is_refused(offset: float) -> None:
    with pytest.raises(InvalidInput, match=r"preprocessing\.offset"):
        Preprocessing(offset=offset)


def test_stored_as_json_it_comes_back_equal_with_its_recipe() -> None:
    """A recipe says how to make such values again; whether two parties agree is said by the rest."""
    for one in (
        IMAGE_8BIT,
        Preprocessing(scale=(0.5, 0.25), offset=(1.0, 2.0), steps=("a",), recipe=(("columns", "a,b"), ("size", "28"))),
    ):
        again = Preprocessing.from_list(json.loads(json.dumps(one.to_list())))
        assert again == one
        assert again.recipe == one.recipe
        assert again.digest == one.digest
    assert Preprocessing(recipe=(("size", "28"),)).digest == Preprocessing().digest


def test_as_many_scales_as_offsets() -> None:
    assert Preprocessing(scale=(1.0, 2.0), offset=(0.0, 1.0)).columns == 2
    assert Preprocessing(scale=2.0).columns is None
    with pytest.raises(InvalidInput, match="as many scales as offsets"):
        _ = Preprocessing(scale=(1.0, 2.0), offset=(0.0, 1.0, 2.0)).columns
