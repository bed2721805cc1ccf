"""The tiled layers against the stock ones: values, every gradient, the rule for ties, and what is left to the stock."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.nn import layers
from fedap_core.nn.layers import Pair, conv_bn_pool


def stock(conv: nn.Conv2d, bn: nn.BatchNorm2d, images: Tensor, pool: Pair) -> Tensor:
    return F.relu(F.max_pool2d(bn(conv(images)), pool))


def whole_numbers(*shape: int, seed: int, spread: int = 3) -> Tensor:
    """Small whole numbers: sums of products of them are exact in float32, so both ways agree to the last bit."""
    return torch.randint(-spread, spread + 1, shape, generator=torch.Generator().manual_seed(seed)).float()


def block(inputs: int, outputs: int, kernel: Pair, *, seed: int) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution with whole weights and a BN layer that, in eval mode, maps whole numbers to whole numbers."""
    conv, bn = nn.Conv2d(inputs, outputs, kernel), nn.BatchNorm2d(outputs, eps=0.0)
    with torch.no_grad():
        conv.weight.copy_(whole_numbers(*conv.weight.shape, seed=seed))
        conv.bias.copy_(whole_numbers(outputs, seed=seed + 1))  # type: ignore[union-attr]
        bn.weight.copy_(whole_numbers(outputs, seed=seed + 2))
        bn.bias.copy_(whole_numbers(outputs, seed=seed + 3))
    return conv, bn


def gradients(output: Tensor, conv: nn.Conv2d, bn: nn.BatchNorm2d, images: Tensor) -> list[Tensor]:
    weights = whole_numbers(*output.shape, seed=99)
    return list(torch.autograd.grad((output * weights).sum(), [images, *conv.parameters(), *bn.parameters()]))


SIZES = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 4),
        "inputs": st.integers(1, 4),
        "outputs": st.sampled_from([1, 3, 6, 8, 16]),
        "kernel": st.sampled_from([(1, 1), (1, 3), (3, 3), (1, 9), (5, 5), (2, 2), (3, 4)]),
        "pool": st.sampled_from([(1, 2), (2, 2), (2, 1), (3, 3)]),
        "height": st.integers(8, 13),
        "width": st.integers(11, 16),
    }
)


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 1000))
def test_values_and_all_gradients_equal_the_stock_layers_to_the_bit_on_exact_numbers(
    sizes: dict[str, int | Pair], seed: int
) -> None:
    """Whole numbers make every sum exact, and full of ties, so nothing may differ: not even who wins a tie."""
    kernel, pool = sizes["kernel"], sizes["pool"]
    assert isinstance(kernel, tuple)
    assert isinstance(pool, tuple)
    batch, inputs, outputs, height, width = (
        int(sizes[key])  # type: ignore[arg-type]
        for key in ("batch", "inputs", "outputs", "height", "width")
    )
    conv, bn = block(inputs, outputs, kernel, seed=seed)
    bn.eval()
    images = whole_numbers(batch, inputs, height, width, seed=seed + 4).requires_grad_()
    ours, theirs = conv_bn_pool(conv, bn, images, pool), stock(conv, bn, images, pool)
    assert torch.equal(ours, theirs)
    for mine, wanted in zip(gradients(ours, conv, bn, images), gradients(theirs, conv, bn, images), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize(
    ("outputs", "kernel", "pool"), [(6, (5, 5), (2, 2)), (16, (5, 5), (2, 2)), (16, (1, 9), (1, 2))]
)
def test_training_mode_agrees_with_the_stock_layers_within_rounding(outputs: int, kernel: Pair, pool: Pair) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        conv, bn, twin = nn.Conv2d(2, outputs, kernel), nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        images = torch.randn(8, 2, 16, 20, requires_grad=True)
    ours, theirs = conv_bn_pool(conv, bn, images, pool), stock(conv, twin, images, pool)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(bn.running_mean, twin.running_mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(bn.running_var, twin.running_var, rtol=1e-5, atol=1e-6)
    mine, wanted = gradients(ours, conv, bn, images), gradients(theirs, conv, twin, images)
    for got, want in zip(mine, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)  # sums of some hundred terms of size 1


@pytest.mark.parametrize("outputs", [6, 8])
def test_repeating_a_step_gives_the_same_bits(outputs: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        conv, bn = nn.Conv2d(3, outputs, 5), nn.BatchNorm2d(outputs)
        images = torch.randn(8, 3, 12, 12, requires_grad=True)
    first = gradients(conv_bn_pool(conv, bn, images, (2, 2)), conv, bn, images)
    second = gradients(conv_bn_pool(conv, bn, images, (2, 2)), conv, bn, images)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("outputs", [6, 8])
def test_a_layer_used_twice_gathers_both_gradients(outputs: int) -> None:
    conv, bn = block(2, outputs, (3, 3), seed=7)
    bn.eval()
    one, two = whole_numbers(2, 2, 8, 8, seed=8).requires_grad_(), whole_numbers(2, 2, 8, 8, seed=9).requires_grad_()
    ours = conv_bn_pool(conv, bn, one, (2, 2)) + conv_bn_pool(conv, bn, two, (2, 2))
    theirs = stock(conv, bn, one, (2, 2)) + stock(conv, bn, two, (2, 2))
    for got, want in zip(gradients(ours, conv, bn, one), gradients(theirs, conv, bn, one), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("outputs", [6, 8])
def test_without_gradients_the_values_are_the_same_and_nothing_is_recorded(outputs: int) -> None:
    conv, bn = block(1, outputs, (5, 5), seed=1)
    images = whole_numbers(3, 1, 12, 12, seed=2)
    with torch.no_grad():
        quiet = conv_bn_pool(conv, bn.eval(), images, (2, 2))
    assert quiet.grad_fn is None
    assert torch.equal(quiet, conv_bn_pool(conv, bn, images, (2, 2)))


@pytest.mark.parametrize("outputs", [6, 8])
def test_frozen_weights_still_pass_the_gradient_on(outputs: int) -> None:
    conv, bn = block(1, outputs, (3, 3), seed=1)
    conv.requires_grad_(False)
    images = whole_numbers(2, 1, 8, 8, seed=2).requires_grad_()
    output = conv_bn_pool(conv, bn.eval(), images, (2, 2))
    (got,) = torch.autograd.grad(output.sum(), images)
    (want,) = torch.autograd.grad(stock(conv, bn, images, (2, 2)).sum(), images)
    assert torch.equal(got, want)


@pytest.mark.parametrize("outputs", [6, 8])
def test_the_bn_layer_sees_every_value_of_its_channel_as_n_by_c(outputs: int) -> None:
    """BN takes moments per channel over everything else, so the order of the pixels is free; which they are is not."""
    conv, bn = block(1, outputs, (5, 5), seed=1)
    seen: list[Tensor] = []
    bn.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().clone()))
    images = whole_numbers(3, 1, 12, 12, seed=2)
    conv_bn_pool(conv, bn.eval(), images, (2, 2))
    whole = conv(images)
    assert seen[0].shape[:2] == whole.shape[:2]
    assert torch.equal(seen[0].flatten(2).sort().values, whole.flatten(2).sort().values)


class Halved(nn.Conv2d):
    """A user's own convolution, whose forward must not be passed over."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) / 2


def _hooked() -> nn.Conv2d:
    conv = nn.Conv2d(2, 8, 3)
    conv.register_forward_hook(lambda *_: None)
    return conv


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(2, 8, 3, stride=2),
        nn.Conv2d(2, 8, 3, padding=1),
        nn.Conv2d(2, 8, 3, padding="same"),
        nn.Conv2d(2, 8, 3, dilation=2),
        nn.Conv2d(2, 8, 3, groups=2),
        nn.Conv2d(2, 8, 3, bias=False),
        nn.Conv2d(2, 8, 2),
        Halved(2, 8, 3),
        _hooked(),
    ],
)
def test_a_convolution_outside_the_covered_kind_runs_as_it_is(conv: nn.Conv2d) -> None:
    bn, images = nn.BatchNorm2d(8).eval(), torch.randn(2, 2, 12, 12)
    assert layers._covered(conv, bn, images, (2, 2)) is None
    assert torch.equal(conv_bn_pool(conv, bn, images, (2, 2)), stock(conv, bn, images, (2, 2)))


@pytest.mark.parametrize(
    ("size", "pool"), [((13, 12), (2, 2)), ((12, 13), (2, 2)), ((12, 12), (3, 3)), ((12, 12), (2, 1))]
)
def test_sizes_that_do_not_divide_into_tiles_go_to_the_stock_layers(size: Pair, pool: Pair) -> None:
    conv, bn, images = nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8).eval(), torch.randn(2, 2, *size)
    assert layers._covered(conv, bn, images, pool) is None
    assert torch.equal(conv_bn_pool(conv, bn, images, pool), stock(conv, bn, images, pool))


def test_other_number_formats_and_empty_batches_go_to_the_stock_layers() -> None:
    conv, bn = nn.Conv2d(2, 8, 3).double(), nn.BatchNorm2d(8).double().eval()
    assert conv_bn_pool(conv, bn, torch.randn(2, 2, 12, 12).double(), (2, 2)).dtype == torch.float64
    single = nn.Conv2d(2, 8, 3)
    assert conv_bn_pool(single, nn.BatchNorm2d(8).eval(), torch.randn(0, 2, 12, 12), (2, 2)).shape == (0, 8, 5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layers._covered(single, nn.BatchNorm2d(8), torch.randn(2, 2, 12, 12), (2, 2)) is None
    assert layers._covered(single, nn.BatchNorm2d(8), torch.randn(2, 2, 12, 12), (2, 2)) is not None


def test_a_model_can_be_told_to_use_the_stock_layers() -> None:
    conv, bn = block(3, 8, (3, 3), seed=1)
    model = nn.Sequential(conv, bn)
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    names = list(model.state_dict())
    layers.use_stock_layers(model)
    assert layers._covered(conv, bn, images, (2, 2)) is None
    assert torch.equal(conv_bn_pool(conv, bn.eval(), images, (2, 2)), stock(conv, bn, images, (2, 2)))
    assert list(model.state_dict()) == names


@pytest.mark.parametrize("outputs", [6, 8])
def test_inputs_in_any_memory_order_are_understood(outputs: int) -> None:
    conv, bn = block(3, outputs, (3, 3), seed=1)
    images = whole_numbers(2, 3, 8, 8, seed=2)
    turned = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(conv_bn_pool(conv, bn.eval(), images, (2, 2)), conv_bn_pool(conv, bn, turned, (2, 2)))
