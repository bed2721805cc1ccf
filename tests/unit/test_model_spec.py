"""The description of a model: text and back without loss, digests that agree exactly when parties do, broken texts."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import METADATA_KEY, ModelSpec, notes_of
from fedap_core.parts import Part, TensorSpec
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing


def tensor(name: str, *shape: int, part: Part = Part.BODY, trainable: bool = True, floating: bool = True) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, part=part, trainable=trainable, floating=floating)


SPEC = ModelSpec(
    model="tiny",
    tensors=(
        tensor("conv.weight", 3, 1, 3, 3),
        tensor("bn.running_mean", 3, part=Part.BATCH_NORM, trainable=False),
        tensor("bn.num_batches_tracked", part=Part.BATCH_NORM, trainable=False, floating=False),
        tensor("fc.weight", 2, 3, part=Part.HEAD),
    ),
    head=("fc",),
    classes=("healthy", "ill"),
    input_shape=(1, 6, 6),
    preprocessing=IMAGE_8BIT,
    seed=2**40,
)


def described(**changes: object) -> dict[str, str]:
    """SPEC's metadata with fields replaced; None removes one."""
    fields: dict[str, Any] = json.loads(SPEC.to_metadata()[METADATA_KEY]) | changes
    return {METADATA_KEY: json.dumps({key: value for key, value in fields.items() if value is not None})}


def test_a_description_reads_back_as_it_was_written() -> None:
    metadata = SPEC.to_metadata({"round": "7"})
    assert ModelSpec.from_metadata(metadata, source="m") == SPEC
    assert notes_of(metadata) == {"round": "7"}
    assert notes_of(SPEC.to_metadata()) == {}


def test_what_travels_is_what_is_not_at_home() -> None:
    names = [spec.name for spec in SPEC.shared({Part.BATCH_NORM})]
    assert names == ["conv.weight", "fc.weight"]
    assert [spec.name for spec in SPEC.shared(set())] == ["conv.weight", "fc.weight", "bn.running_mean"]


def test_a_model_with_one_class_or_a_tensor_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"classes: got .*, expected at least two"):
        dataclasses.replace(SPEC, classes=("all",))
    with pytest.raises(InvalidInput, match="tensors: got a name twice"):
        dataclasses.replace(SPEC, tensors=(SPEC.tensors[0], SPEC.tensors[0]))


@pytest.mark.parametrize(
    "metadata",
    [
        {METADATA_KEY: "not json"},
        {METADATA_KEY: "[1, 2]"},
        {METADATA_KEY: "null"},
        described(tensors=None),
        described(tensors=[["w", [1], "BODY"]]),
        described(tensors=[["w", [1], "NECK", True, True]]),
        described(tensors=[["w", ["wide"], "BODY", True, True]]),
        described(tensors=[["w", [-1], "BODY", True, True]]),
        described(tensors=[["w", 3, "BODY", True, True]]),
        described(tensors=[["w", [1], "BODY", True, False]]),
        described(preprocessing=[1.0]),
        described(preprocessing=["x", 0.0, []]),
        described(preprocessing=[0.0, 0.0, []]),
        described(head=None),
        described(head=[]),
        described(classes=["one"]),
        described(classes=[1, 2]),
        described(head=[3]),
        described(model=5),
        described(seed="x"),
        described(seed=0.5),
        described(input_shape=["wide"]),
        described(notes=None),
        described(notes=["a"]),
    ],
)
def test_a_broken_description_is_refused_and_names_the_file_or_the_field(metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        ModelSpec.from_metadata(metadata, source="m.safetensors")


def test_files_of_others_and_of_another_format_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"m\.safetensors: got no model description"):
        ModelSpec.from_metadata({"format": "pt"}, source="m.safetensors")
    with pytest.raises(InvalidInput, match=r"m\.safetensors: got format 2, expected format 1. Write it anew"):
        ModelSpec.from_metadata(described(format=2), source="m.safetensors")


def test_whole_number_constants_survive_the_text() -> None:
    spec = dataclasses.replace(SPEC, preprocessing=Preprocessing(scale=2, offset=1))
    read = ModelSpec.from_metadata(spec.to_metadata(), source="m")
    assert read.preprocessing.digest == spec.preprocessing.digest
