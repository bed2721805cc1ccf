"""Model files: written whole or not at all, read back to the bit, refused when they do not fit."""

from __future__ import annotations

import dataclasses
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.parts import Part
from fedap_core.preprocessing import Preprocessing
from participant.record.model_file import make_initial, module_of, read_model, read_spec, write_model
from tests.support.models import TINY_SHAPE, draw

CLASSES = ("a", "b", "c")


def initial(
    model: str = "make_tiny", *, shape: tuple[int, ...] = TINY_SHAPE, head: tuple[str, ...] = (), seed: int = 3
) -> tuple[ModelSpec, State]:
    return make_initial(
        f"tests.support.models:{model}",
        input_shape=shape,
        classes=CLASSES,
        preprocessing=Preprocessing(),
        seed=seed,
        head=head,
    )


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_an_initial_model_is_described_with_its_head_and_depends_on_its_seed() -> None:
    spec, state = initial()
    assert (spec.head, spec.classes, spec.input_shape, spec.seed) == (("fc",), CLASSES, TINY_SHAPE, 3)
    assert [tensor.name for tensor in spec.tensors] == list(state)
    assert same(state, initial()[1])
    assert not same(state, initial(seed=4)[1])


def test_a_named_head_overrides_what_is_found() -> None:
    spec, _ = initial(head=("hidden", "fc"))
    assert spec.head == ("hidden", "fc")
    assert {tensor.name for tensor in spec.tensors if tensor.part is Part.HEAD} == {
        "hidden.weight", "hidden.bias", "fc.weight", "fc.bias",
    }  # fmt: skip


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_generator_takes_is_refused(seed: int) -> None:
    with pytest.raises(InvalidInput, match="seed: got"):
        initial(seed=seed)


def test_a_file_reads_back_to_the_bit_with_its_notes(tmp_path: Path) -> None:
    spec, state = initial()
    path = tmp_path / "deep" / "er" / "model.safetensors"
    write_model(path, spec, state, {"round": "4"})
    read, tensors, notes = read_model(path)
    assert (read, notes) == (spec, {"round": "4"})
    assert same(tensors, state)
    assert read_spec(path) == spec
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_model(tmp_path / name, *initial())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_tied_tensors_are_stored_once_and_tied_again(tmp_path: Path) -> None:
    spec, state = initial("make_tied", shape=(4,))
    assert "second.weight" not in state
    write_model(tmp_path / "tied", spec, state)
    module = module_of(*read_model(tmp_path / "tied")[:2])
    assert module.get_parameter("first.weight") is module.get_parameter("second.weight")
    assert torch.equal(module.get_parameter("second.weight"), state["first.weight"])


def test_the_described_module_has_the_given_values() -> None:
    spec, state = initial()
    state = {name: tensor + 1 for name, tensor in state.items()}
    module = module_of(spec, state)
    assert same(dict(module.state_dict()), state)
    assert module(draw(4, *TINY_SHAPE)).shape == (4, 3)


def test_a_model_whose_code_has_changed_is_refused() -> None:
    spec, state = initial()
    with pytest.raises(InvalidInput, match="Has its code changed"):
        module_of(dataclasses.replace(spec, tensors=spec.tensors[:-1]), state)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """The system refuses to let the file grow, as a full disk would."""
    path = tmp_path / "model"
    spec, state = initial()
    write_model(path, spec, state)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(InvalidInput, match="File too large"):
            write_model(path, *initial(seed=4))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_missing_torn_and_foreign_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="fedap-participant init"):
        read_model(tmp_path / "missing")
    torn = tmp_path / "torn"
    write_model(torn, *initial())
    torn.write_bytes(torn.read_bytes()[:-40])
    for read in (read_model, read_spec):
        with pytest.raises(InvalidInput, match=r"torn.*intact safetensors file"):
            read(torn)
    save_file({"w": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(InvalidInput, match="foreign: got no model description"):
        read_model(tmp_path / "foreign")


def test_tensors_that_contradict_the_description_are_refused_by_name(tmp_path: Path) -> None:
    spec, state = initial()
    wrong = {
        "missing": {name: tensor for name, tensor in state.items() if name != "fc.bias"},
        "of the wrong shape": state | {"fc.bias": torch.zeros(4)},
        "not finite": state | {"fc.bias": torch.tensor([0.0, float("nan"), 0.0])},
    }
    for fault, tensors in wrong.items():
        write_model(tmp_path / "m", spec, tensors)
        with pytest.raises(InvalidInput, match=rf"tensor fc\.bias .*{fault}"):
            read_model(tmp_path / "m")
