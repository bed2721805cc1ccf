"""The flat model: where tensors live, in which order they travel, and that loading writes all or nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.state import FlatModel, copy_into, describe_tensors, flat_size, model_entries
from fedap_core.parts import Part, TensorSpec
from tests.support.models import TINY_SHAPE, ZOO, Tied, TinyNet, draw, draw_labels

HOMES = {
    "nothing": frozenset[Part](),
    "bn": frozenset({Part.BATCH_NORM}),
    "head": frozenset({Part.HEAD}),
    "everything": frozenset(Part),
}


def flatten(name: str, home: str) -> FlatModel:
    specimen = ZOO[name]
    model = specimen.make()
    return FlatModel(model, describe_tensors(model, [specimen.head]), HOMES[home])


def frozen_tiny() -> nn.Module:
    """A tiny network whose convolution is not trained."""
    model = ZOO["tiny"].make()
    model.get_parameter("conv.weight").requires_grad_(False)
    model.get_parameter("conv.bias").requires_grad_(False)
    return model


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ZOO)
def test_flattening_changes_no_value_and_no_output(name: str, home: str) -> None:
    specimen = ZOO[name]
    plain = specimen.make().eval()
    flat = flatten(name, home)
    inputs = draw(4, *specimen.input_shape)
    assert torch.equal(flat.module.eval()(inputs), plain(inputs))
    assert all(torch.equal(flat.module.state_dict()[entry], tensor) for entry, tensor in plain.state_dict().items())


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ZOO)
def test_trainable_and_shared_values_are_slices_whose_change_changes_the_module(name: str, home: str) -> None:
    flat = flatten(name, home)
    trainable = [p for p in flat.module.parameters() if p.requires_grad]
    assert flat.trainable.numel() == sum(p.numel() for p in trainable)
    assert flat.shared.numel() == sum(spec.size for spec in flat.layout)
    with torch.no_grad():
        flat.trainable.fill_(7.0)
        flat.shared.fill_(5.0)
    state = flat.module.state_dict()
    for entry, part in ((e, p) for e, p in state.items() if p.is_floating_point()):
        shared = entry in {spec.name for spec in flat.layout}
        if shared:
            assert torch.equal(part, torch.full_like(part, 5.0)), entry
    kept = {name: p for name, p in flat.module.named_parameters() if name not in {spec.name for spec in flat.layout}}
    assert all(torch.equal(p, torch.full_like(p, 7.0)) for p in kept.values())


def test_values_travel_trainable_first_each_kind_in_model_order() -> None:
    """Shared with BN at home: conv 3*1*3*3 = 27 + 3, hidden 8*12 = 96 + 8, head 3*8 = 24 + 3: 161 values."""
    flat = flatten("tiny", "bn")
    names = ["conv.weight", "conv.bias", "hidden.weight", "hidden.bias", "fc.weight", "fc.bias"]
    assert [spec.name for spec in flat.layout] == names
    entries = model_entries(flat.module)
    assert torch.equal(flat.shared, torch.cat([entries[name].detach().flatten() for name in names]))
    assert flat.shared.numel() == 161
    assert flat.trainable.numel() == 161 + 2 * 3 + 2 * 8


def test_shared_running_statistics_travel_behind_the_parameters() -> None:
    flat = flatten("tiny", "nothing")
    assert [spec.name for spec in flat.layout[-4:]] == [
        "norm.running_mean", "norm.running_var", "scale.running_mean", "scale.running_var",
    ]  # fmt: skip
    assert flat.shared.numel() == flat.trainable.numel() + 2 * 3 + 2 * 8


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ZOO)
def test_integer_buffers_are_never_shared(name: str, home: str) -> None:
    assert not any("num_batches_tracked" in spec.name for spec in flatten(name, home).layout)


def test_with_everything_at_home_nothing_is_shared_and_all_is_trained() -> None:
    flat = flatten("tiny", "everything")
    assert flat.host.shape == (0,)
    assert flat.trainable.numel() == flat.flat.numel() == sum(p.numel() for p in flat.module.parameters())


def test_tied_tensors_are_stored_once_and_stay_tied() -> None:
    """first 4*4 + 4, norm 2*4, second's own bias 4, fc 3*4 + 3, and the running statistics 2*4: 55 values, no more."""
    flat = flatten("tied", "nothing")
    module = flat.module
    assert isinstance(module, Tied)
    assert flat.flat.numel() == 20 + 8 + 4 + 15 + 8
    flat.flat.fill_(2.0)
    assert module.first.weight is module.second.weight
    assert float(module.again.running_mean.sum()) == 8.0  # type: ignore[union-attr]
    assert "second.weight" not in flat.state()
    assert "again.weight" not in flat.state()


def test_frozen_parameters_travel_but_are_not_trained() -> None:
    model = frozen_tiny()
    flat = FlatModel(model, describe_tensors(model, ["fc"]), HOMES["bn"])
    assert [spec.name for spec in flat.layout][-2:] == ["conv.weight", "conv.bias"]
    assert flat.trainable.numel() == sum(p.numel() for p in model.parameters() if p.requires_grad)
    flat.trainable.fill_(9.0)
    assert not (model.get_parameter("conv.weight") == 9.0).any()
    flat.shared.fill_(4.0)
    assert (model.get_parameter("conv.weight") == 4.0).all()
    flat.attach_gradient(torch.zeros_like(flat.trainable))
    assert model.get_parameter("conv.weight").grad is None


def test_autograd_writes_into_the_flat_gradient() -> None:
    flat = flatten("tiny", "bn")
    plain = ZOO["tiny"].make()
    inputs, labels = draw(5, *TINY_SHAPE), draw_labels(5)
    gradient = torch.zeros_like(flat.trainable)
    flat.attach_gradient(gradient)
    for model in (flat.module, plain):
        nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
    expected = dict(plain.named_parameters())
    order = ["norm.weight", "norm.bias", "scale.weight", "scale.bias", *(spec.name for spec in flat.layout)]
    grads = [expected[name].grad for name in order]
    assert torch.equal(gradient, torch.cat([grad.flatten() for grad in grads if grad is not None]))
    flat.detach_gradient()
    assert all(parameter.grad is None for parameter in flat.module.parameters())


def test_the_shared_array_is_the_model_itself() -> None:
    flat = flatten("tiny", "bn")
    flat.host[:] = 3.0
    module = flat.module
    assert isinstance(module, TinyNet)
    assert (module.fc.weight == 3.0).all()
    assert not (module.norm.weight == 3.0).any()


def test_states_are_copies() -> None:
    flat = flatten("tiny", "bn")
    state = flat.state()
    flat.flat.fill_(1.5)
    assert not any((tensor == 1.5).any() for tensor in state.values())
    flat.load(state)
    assert all(torch.equal(tensor, state[entry]) for entry, tensor in flat.module.state_dict().items())
    assert torch.equal(flat.shared[:27].view(3, 1, 3, 3), state["conv.weight"])


def test_a_given_buffer_becomes_the_home_of_the_values() -> None:
    model = ZOO["tiny"].make()
    tensors = describe_tensors(model, ["fc"])
    buffer = torch.zeros(flat_size(tensors, HOMES["bn"]))
    FlatModel(model, tensors, HOMES["bn"], buffer)
    assert model.get_parameter("fc.bias").data_ptr() == buffer[-3:].data_ptr()


@pytest.mark.parametrize("buffer", [torch.zeros(3), torch.zeros(183, dtype=torch.float64)])
def test_a_buffer_of_another_size_or_type_is_refused(buffer: Tensor) -> None:
    model = ZOO["tiny"].make()
    with pytest.raises(InvalidInput, match=r"buffer: .* expected 183 float32 values"):
        FlatModel(model, describe_tensors(model, ["fc"]), HOMES["bn"], buffer)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fc.wait": torch.zeros(3)}, "tensor fc.wait: got unknown"),
        ({"fc.bias": torch.zeros(4)}, r"tensor fc.bias: got \(4,\), expected shape \(3,\)"),
    ],
)
def test_loading_refuses_before_it_writes_anything(wrong: dict[str, Tensor], message: str) -> None:
    model = ZOO["tiny"].make()
    before = model.get_parameter("conv.bias").clone()
    with pytest.raises(InvalidInput, match=message):
        copy_into(model, {"conv.bias": torch.ones(3), **wrong})
    assert torch.equal(model.get_parameter("conv.bias"), before)


def test_models_of_another_precision_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"tensor 0.weight: got torch.float64.*model.float\(\)"):
        describe_tensors(nn.Sequential(nn.Linear(2, 2).double()), [])


def test_a_mirrored_model_takes_and_shows_its_shared_values_only_on_request() -> None:
    """As on an accelerator: `host` is then a copy in main memory."""
    model = ZOO["tiny"].make()
    flat = FlatModel(model, describe_tensors(model, [ZOO["tiny"].head]), HOMES["bn"], mirrored=True)
    before = flat.shared.clone()
    flat.host[:] = 3.0
    assert torch.equal(flat.shared, before)
    flat.receive()
    assert (flat.shared == 3.0).all()
    flat.shared.fill_(4.0)
    assert (flat.host == 3.0).all()
    flat.publish()
    assert (flat.host == 4.0).all()


def test_what_travels_beside_the_model_ends_the_shared_slice_and_is_no_part_of_the_module() -> None:
    model = ZOO["tiny"].make()
    tensors = describe_tensors(model, ["fc"])
    beside = (TensorSpec(name="control", shape=(2, 2), part=Part.BODY, trainable=False),)
    buffer = torch.ones(flat_size((*tensors, *beside), HOMES["bn"]))
    flat = FlatModel(model, tensors, HOMES["bn"], buffer, beside=beside)
    assert flat.beside["control"].tolist() == [0.0] * 4
    flat.shared[-4:] = 3.0
    assert flat.beside["control"].tolist() == [3.0] * 4
    assert "control" not in flat.state()
    assert flat.twin().shared.numel() == flat.shared.numel() - 4
