"""Parts of a model: their precedence, what travels and in which order, and tensors that contradict themselves."""

from __future__ import annotations

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part, TensorSpec, shared_tensors


def tensor(name: str, part: Part, *, trainable: bool = True, floating: bool = True) -> TensorSpec:
    return TensorSpec(name=name, shape=(2, 3), part=part, trainable=trainable, floating=floating)


TENSORS = (
    tensor("bn.weight", Part.BATCH_NORM),
    tensor("bn.mean", Part.BATCH_NORM, trainable=False),
    tensor("bn.batches", Part.BATCH_NORM, trainable=False, floating=False),
    tensor("body.fixed", Part.BODY, trainable=False),
    tensor("body.weight", Part.BODY),
    tensor("head.weight", Part.HEAD),
)


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        (set(), ["bn.weight", "body.weight", "head.weight", "bn.mean", "body.fixed"]),
        ({Part.BATCH_NORM}, ["body.weight", "head.weight", "body.fixed"]),
        ({Part.HEAD}, ["bn.weight", "body.weight", "bn.mean", "body.fixed"]),
        ({Part.HEAD, Part.BATCH_NORM}, ["body.weight", "body.fixed"]),
        (set(Part), []),
    ],
)
def test_what_is_not_at_home_travels_trainable_first_and_integers_never(home: set[Part], expected: list[str]) -> None:
    assert [spec.name for spec in shared_tensors(TENSORS, home)] == expected


def test_batch_norm_outranks_the_head_and_the_head_the_body() -> None:
    assert max(Part.BODY, Part.HEAD) is Part.HEAD
    assert max(Part.HEAD, Part.BATCH_NORM) is Part.BATCH_NORM


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((4,), 4), ((2, 3, 5), 30), ((2, 0), 0)])
def test_size_is_the_number_of_values(shape: tuple[int, ...], size: int) -> None:
    assert TensorSpec(name="t", shape=shape, part=Part.BODY, trainable=False).size == size


def test_an_integer_tensor_cannot_be_trainable() -> None:
    with pytest.raises(InvalidInput, match="tensor t: got integer and trainable"):
        tensor("t", Part.BODY, floating=False)


@pytest.mark.parametrize("shape", [(-1,), (2, 1.5), ("wide",)])
def test_a_shape_is_made_of_whole_numbers(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"tensor t: got .*a shape of whole numbers"):
        TensorSpec(name="t", shape=shape, part=Part.BODY, trainable=True)
