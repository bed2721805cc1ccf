"""Gradients in one buffer: the direct way writes what autograd would have added to zeros, however a layer is used."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.nn.gradients import DIRECT_FROM, FlatGradient
from fedap_core.nn.state import FlatModel, describe_tensors

Loss = Callable[["Net", Tensor], Tensor]


def whole_numbers(*shape: int, seed: int = 1) -> Tensor:
    """Small whole numbers: sums of products of them are exact in float32, so no order of adding can be told apart."""
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).float()


class Net(nn.Module):
    """Linear layers to be used in any way."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6, bias=False)
        self.twin = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6, eps=0.0).eval()  # maps whole numbers to whole numbers
        self.twin.weight = self.first.weight
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(whole_numbers(*parameter.shape, seed=number))

    def flat(self) -> FlatModel:
        return FlatModel(self, describe_tensors(self, ["second"]), frozenset())


def _no_grad_in_between(net: Net, x: Tensor) -> Tensor:
    with torch.no_grad():
        aside = net.first(x)
    loss: Tensor = (net.second(net.first(x)) + aside).square().sum()
    return loss


USES: dict[str, Loss] = {
    "one after the other": lambda net, x: net.second(F.relu(net.norm(net.first(x)))).square().sum(),
    "one layer only": lambda net, x: net.second(x).square().sum(),
    "none of them": lambda net, x: net.norm(x).square().sum(),
    "repeatedly": lambda net, x: net.second(net.second(net.second(x))).square().sum(),
    "two layers of one weight": lambda net, x: net.twin(F.relu(net.first(x))).square().sum(),
    "a weight of its own accord": lambda net, x: net.first(x).square().sum() + net.first.weight.square().sum(),
    "a weight of its own accord first": lambda net, x: net.first(x @ net.first.weight).square().sum(),
    "three axes": lambda net, x: net.second(net.first(x.view(2, -1, 6))).square().sum(),
    "with a look in between": _no_grad_in_between,
}


@pytest.mark.parametrize("then", list(USES))
@pytest.mark.parametrize("use", list(USES))
def test_what_is_written_is_what_autograd_adds_to_zeros(use: str, then: str) -> None:
    """Two steps, so that what the first one wrote would be found where the second one says nothing."""
    flat, plain = Net().flat(), Net().flat()
    gradient = FlatGradient(flat, direct_from=1)
    expected = torch.zeros_like(plain.trainable)
    plain.attach_gradient(expected)
    for number, name in enumerate((use, then)):
        x = whole_numbers(8, 6, seed=number)
        USES[name](flat.module, x).backward()  # type: ignore[arg-type, no-untyped-call]
        gradient.complete()
        USES[name](plain.module, x).backward()  # type: ignore[arg-type, no-untyped-call]
        assert torch.equal(gradient.flat, expected)
        gradient.clear()
        expected.zero_()


def test_no_gradient_of_a_direct_weight_passes_through_autograd() -> None:
    """Otherwise the saving would be an illusion: autograd's hook sees a gradient only where autograd made one."""
    net = Net()
    flat = net.flat()
    FlatGradient(flat, direct_from=1)
    seen: list[object] = []
    net.second.weight.register_hook(seen.append)  # type: ignore[no-untyped-call]
    net.second(whole_numbers(4, 6)).sum().backward()
    assert seen == [None]


def test_gradients_for_the_inputs_and_the_bias_are_those_of_the_stock_layer() -> None:
    net, x = Net(), whole_numbers(5, 6)
    flat = net.flat()
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    stock = nn.Linear(6, 6)
    stock.load_state_dict(net.first.state_dict())
    stock(theirs).square().sum().backward()
    FlatGradient(flat, direct_from=1)
    net.first(ours).square().sum().backward()
    for mine, wanted in ((ours, theirs), (net.first.bias, stock.bias), (net.first.weight, stock.weight)):
        assert mine.grad is not None
        assert wanted.grad is not None
        assert torch.equal(mine.grad, wanted.grad)


def test_a_frozen_bias_stays_without_a_gradient() -> None:
    net = Net()
    net.first.bias.requires_grad_(False)
    flat = net.flat()
    FlatGradient(flat, direct_from=1)
    net.first(whole_numbers(4, 6)).sum().backward()
    assert net.first.bias.grad is None


def test_afterwards_the_layers_are_as_they_were() -> None:
    net = Net()
    flat = net.flat()
    before = {name: set(vars(module)) for name, module in net.named_modules()}
    gradient = FlatGradient(flat, direct_from=1)
    assert "forward" in vars(net.first)
    gradient.detach()
    assert {name: set(vars(module)) for name, module in net.named_modules()} == before
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.first.weight._backward_hooks


class Doubled(nn.Linear):
    """A user's own layer, whose forward must not be passed over."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return 2 * super().forward(input)


@pytest.mark.parametrize("case", ["small", "subclass", "frozen", "already changed", "autocast"])
def test_layers_outside_the_covered_kind_run_as_they_are(case: str) -> None:
    net = Net()
    if case == "subclass":
        net.second = Doubled(6, 6, bias=False)
    if case == "frozen":
        net.second.weight.requires_grad_(False)
    if case == "already changed":
        net.second.forward = lambda input: 3 * input  # type: ignore[method-assign]  # noqa: A006
    flat, x = net.flat(), whole_numbers(3, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=case == "autocast"):
        expected = net.second(x)
        own = net.second.forward
        gradient = FlatGradient(flat, direct_from=DIRECT_FROM if case == "small" else 1)
        found = net.second(x)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    if case != "autocast":
        assert net.second.forward == own
    gradient.detach()


def test_only_what_autograd_adds_to_is_cleared() -> None:
    """Clearing what will be overwritten is the cost to be saved: there the old values stay until then."""
    net = Net()
    flat = net.flat()
    gradient = FlatGradient(flat, direct_from=1)
    gradient.flat.fill_(7.0)
    gradient.clear()
    kept = {name: float(p.grad.sum()) for name, p in net.named_parameters() if p.grad is not None}
    assert kept == {
        "first.weight": 7.0 * 36, "first.bias": 0.0, "second.weight": 7.0 * 36, "twin.bias": 0.0,
        "norm.weight": 0.0, "norm.bias": 0.0,
    }  # fmt: skip
    gradient.complete()
    assert not gradient.flat.any()
