"""Which state entries are batch norm's, the head's and the body's: by type and by tensor, whatever the names are."""

from __future__ import annotations

import pytest
from torch import nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.batchnorm import batch_norm_layers, entry_aliases, part_of_entries, require_batch_norm
from fedap_core.parts import Part
from tests.support.models import ZOO, CountingBatchNorm, Residual, Tied

STANDARD_ENTRIES = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}


def entries_of(model: nn.Module, part: Part, head: str) -> set[str]:
    return {entry for entry, found in part_of_entries(model, [head]).items() if found is part}


@pytest.mark.parametrize("name", ZOO)
def test_batch_norm_layers_are_found_by_type_in_order(name: str) -> None:
    specimen = ZOO[name]
    assert tuple(found for found, _ in batch_norm_layers(specimen.make())) == specimen.bn


@pytest.mark.parametrize("name", sorted(set(ZOO) - {"tied", "subclass", "no-affine", "untracked"}))
def test_a_batch_norm_layer_owns_its_five_entries_and_nothing_else(name: str) -> None:
    specimen = ZOO[name]
    expected = {f"{layer}.{entry}" for layer in specimen.bn for entry in STANDARD_ENTRIES}
    assert entries_of(specimen.make(), Part.BATCH_NORM, specimen.head) == expected


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("subclass", STANDARD_ENTRIES | {"seen"}),
        ("no-affine", STANDARD_ENTRIES - {"weight", "bias"}),
        ("untracked", {"weight", "bias"}),
    ],
)
def test_unusual_batch_norm_layers_own_whatever_they_hold(name: str, entries: set[str]) -> None:
    specimen = ZOO[name]
    assert entries_of(specimen.make(), Part.BATCH_NORM, specimen.head) == {f"1.{entry}" for entry in entries}


@pytest.mark.parametrize("name", ZOO)
def test_every_entry_has_a_part_and_the_head_has_weight_and_bias(name: str) -> None:
    specimen = ZOO[name]
    model = specimen.make()
    assert part_of_entries(model, [specimen.head]).keys() == model.state_dict().keys()
    assert entries_of(model, Part.HEAD, specimen.head) == {f"{specimen.head}.weight", f"{specimen.head}.bias"}


def test_names_do_not_decide() -> None:
    """A Linear called `bn` is body, the BN layer called `conv` is batch norm."""
    parts = part_of_entries(ZOO["misnamed"].make(), ["stem"])
    assert parts["bn.weight"] is Part.BODY
    assert parts["conv.weight"] is Part.BATCH_NORM


def test_group_instance_and_layer_norm_are_body() -> None:
    parts = part_of_entries(ZOO["other-norms"].make(), ["7"])
    others = {part for entry, part in parts.items() if entry.split(".")[0] in {"1", "2", "6"}}
    assert "2.running_mean" in parts
    assert others == {Part.BODY}


def test_a_batch_norm_layer_on_its_own_and_below_a_head_is_batch_norm() -> None:
    assert set(part_of_entries(nn.BatchNorm1d(2), []).values()) == {Part.BATCH_NORM}
    parts = part_of_entries(nn.Sequential(Residual(1, 2)), ["0"])
    assert parts["0.downsample.0.weight"] is Part.HEAD
    assert parts["0.downsample.1.weight"] is Part.BATCH_NORM


def test_everything_below_a_head_is_head() -> None:
    parts = part_of_entries(ZOO["vgg"].make(), ["3"])
    assert {entry for entry, part in parts.items() if part is Part.HEAD} == {
        "3.0.weight", "3.0.bias", "3.3.weight", "3.3.bias",
    }  # fmt: skip


def test_a_tied_tensor_has_its_most_private_part_under_every_name() -> None:
    model = Tied()
    parts = part_of_entries(model, ["second"])
    assert (parts["first.weight"], parts["second.weight"]) == (Part.HEAD, Part.HEAD)
    assert (parts["first.bias"], parts["second.bias"]) == (Part.BODY, Part.HEAD)
    assert (parts["norm.weight"], parts["again.weight"]) == (Part.BATCH_NORM, Part.BATCH_NORM)
    model.first.bias = model.norm.bias
    assert part_of_entries(model, ["second"])["first.bias"] is Part.BATCH_NORM


def test_aliases_point_to_the_first_name_of_a_tensor() -> None:
    aliases = entry_aliases(Tied())
    assert aliases["second.weight"] == "first.weight"
    assert aliases["again.running_mean"] == "norm.running_mean"
    assert aliases["second.bias"] == "second.bias"


def test_a_head_that_is_no_module_is_refused_with_the_modules_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"head: got fc, expected a module of the model: bn, conv, stem"):
        part_of_entries(ZOO["misnamed"].make(), ["fc"])


def test_an_algorithm_of_batch_norm_is_refused_for_a_model_without_it() -> None:
    without = nn.Sequential(nn.GroupNorm(1, 2), nn.Linear(2, 2))
    with pytest.raises(InvalidInput, match="fedap keeps or measures them"):
        require_batch_norm(without, "fedap")
    require_batch_norm(nn.Sequential(CountingBatchNorm(2)), "fedap")
