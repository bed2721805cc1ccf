"""Moments of layer inputs: exact against numpy on all activations at once, in any batches; and what is refused."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.nn.statistics import MAX_COVARIANCE_CHANNELS, batch_norm_inputs, head_inputs, running_statistics
from tests.support.models import TINY_SHAPE, ZOO, ByKeyword, Tied, TinyNet, Unreached, draw

MEASURABLE = sorted(set(ZOO) - {"untracked"})


def activations(model: nn.Module, layer: str, inputs: Tensor) -> FloatArray:
    """(C, values): what enters a BN layer in one eval pass over all inputs, calls one after the other."""
    caught: list[Tensor] = []
    handle = model.get_submodule(layer).register_forward_pre_hook(lambda _, args: caught.append(args[0].detach()))
    with torch.no_grad():
        model.eval()(inputs)
    handle.remove()
    arrays = [tensor.double().numpy() for tensor in caught]
    return np.concatenate([np.moveaxis(array, 1, 0).reshape(array.shape[1], -1) for array in arrays], axis=1)


def in_batches(inputs: Tensor, sizes: int | tuple[int, ...]) -> tuple[Tensor, ...]:
    cut: tuple[Tensor, ...] = inputs.split(sizes)  # type: ignore[no-untyped-call]
    return cut


def require_moments(found: LayerMoments, values: FloatArray, *, within: float = 1e-10) -> None:
    scale = max(1.0, float(np.abs(values).max()) ** 2)
    assert found.count == values.shape[1]
    np.testing.assert_allclose(found.mean, values.mean(axis=1), rtol=0, atol=within * scale)
    np.testing.assert_allclose(found.variance, values.var(axis=1), rtol=0, atol=within * scale)
    if found.covariance is not None:
        expected = np.atleast_2d(np.cov(values, bias=True))
        np.testing.assert_allclose(found.covariance, expected, rtol=0, atol=within * scale)


def same_bits(one: BnStats, other: BnStats) -> bool:
    pairs = zip(one.layers, other.layers, strict=True)
    return all(np.array_equal(a.mean, b.mean) and np.array_equal(a.variance, b.variance) for a, b in pairs)


@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("name", MEASURABLE)
def test_moments_are_those_of_all_inputs_together(name: str, covariance: bool) -> None:
    specimen = ZOO[name]
    model = specimen.make()
    inputs = draw(23, *specimen.input_shape, scale=3.0, offset=1.0)
    stats = batch_norm_inputs(model, [inputs], covariance=covariance)
    assert stats.samples == 23
    assert stats.layer_names == specimen.bn
    for layer in stats.layers:
        require_moments(layer, activations(model, layer.name, inputs))


@pytest.mark.parametrize("sizes", [(23,), (1,) * 23, (22, 1), (5, 5, 5, 8)])
def test_other_batches_agree_within_1e_10_and_the_same_batches_to_the_bit(sizes: tuple[int, ...]) -> None:
    """For a layer that stands first: behind a float32 layer the activations themselves round by their batch."""
    model, deep = nn.Sequential(nn.BatchNorm1d(4)), ZOO["tied"].make()
    inputs = draw(23, 4, offset=2.0)
    stats = batch_norm_inputs(model, in_batches(inputs, sizes), covariance=True)
    require_moments(stats.layers[0], inputs.double().numpy().T)
    assert same_bits(stats, batch_norm_inputs(model, in_batches(inputs, sizes), covariance=True))
    require_moments(
        batch_norm_inputs(deep, in_batches(inputs, sizes)).layers[0], activations(deep, "norm", inputs), within=1e-6
    )


def test_a_layer_called_twice_merges_both_calls() -> None:
    """23 samples of 4 channels, two calls: 46 values per channel."""
    stats = batch_norm_inputs(Tied(), [draw(23, 4)])
    assert [layer.count for layer in stats.layers] == [46]


def test_numbers_worked_out_by_hand() -> None:
    """Channel 0 of (n, C) sees 1, 3, 5: mean 3, variance (4 + 0 + 4) / 3; channel 1 sees 0, 0, 6: mean 2, variance
    (4 + 4 + 16) / 3 = 8; covariance ((-2)(-2) + 0 + 2 * 4) / 3 = 4."""
    inputs = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]])
    found = batch_norm_inputs(nn.Sequential(nn.BatchNorm1d(2)), in_batches(inputs, 2), covariance=True).layers[0]
    np.testing.assert_allclose(found.mean, [3.0, 2.0], atol=1e-15)
    np.testing.assert_allclose(found.variance, [8 / 3, 8.0], atol=1e-14)
    assert found.covariance is not None
    np.testing.assert_allclose(found.covariance, [[8 / 3, 4.0], [4.0, 8.0]], atol=1e-14)


def test_every_pixel_is_a_value() -> None:
    """(n, C, D, H, W) = (2, 2, 3, 4, 5): 2 * 3 * 4 * 5 = 120 values per channel."""
    assert batch_norm_inputs(ZOO["volume"].make(), [draw(2, 2, 3, 4, 5)]).layers[0].count == 120


@pytest.mark.parametrize("value", [0.0, 0.1, -3.3e7])
def test_a_constant_channel_has_its_value_as_mean_and_variance_zero(value: float) -> None:
    constant = torch.full((23, 2), value)
    layer = batch_norm_inputs(nn.Sequential(nn.BatchNorm1d(2)), in_batches(constant, 7)).layers[0]
    assert layer.mean.tolist() == [float(np.float32(value))] * 2
    assert layer.variance.tolist() == [0.0, 0.0]


def test_one_sample_is_enough_to_measure() -> None:
    layer = batch_norm_inputs(nn.Sequential(nn.BatchNorm1d(2)), [torch.tensor([[2.0, -1.0]])]).layers[0]
    assert (layer.count, layer.mean.tolist(), layer.variance.tolist()) == (1, [2.0, -1.0], [0.0, 0.0])


def test_large_offsets_do_not_swallow_the_variance() -> None:
    """Float32 sums of squares would lose a variance of 1 beside a mean of 10,000; exact moments do not."""
    inputs = draw(500, 2, offset=10_000.0)
    layer = batch_norm_inputs(nn.Sequential(nn.BatchNorm1d(2)), in_batches(inputs, 64)).layers[0]
    np.testing.assert_allclose(layer.variance, inputs.double().numpy().var(axis=0), rtol=1e-10)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("covariance", [False, True])
def test_inputs_that_are_not_finite_are_refused_and_name_the_first_layer_they_reach(
    bad: float, covariance: bool
) -> None:
    inputs = draw(4, *TINY_SHAPE)
    inputs[1, 0, 2, 2] = bad
    with pytest.raises(InvalidInput, match=r"layer 'norm'.*NaN or Inf"):
        batch_norm_inputs(TinyNet(), [inputs], covariance=covariance)


def test_measuring_leaves_the_model_as_it_was() -> None:
    model = TinyNet(dropout=0.5).train()
    before = {entry: tensor.clone() for entry, tensor in model.state_dict().items()}
    batch_norm_inputs(model, [draw(8, *TINY_SHAPE)])
    head_inputs(model, "fc", [draw(8, *TINY_SHAPE)])
    assert all(torch.equal(before[entry], tensor) for entry, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_layer_never_reached_is_named() -> None:
    with pytest.raises(InvalidInput, match="layer spare: got never reached"):
        batch_norm_inputs(Unreached(), [draw(4, 4)])


@pytest.mark.parametrize("batches", [[], [torch.zeros(0, 4)]])
def test_without_samples_there_is_nothing_to_measure(batches: Iterable[Tensor]) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        batch_norm_inputs(Unreached(), batches)


def test_layers_called_by_keyword_are_measured_too() -> None:
    model, inputs = ByKeyword(), draw(9, 4)
    require_moments(batch_norm_inputs(model, [inputs]).layers[0], inputs.double().numpy().T)
    assert head_inputs(model, "fc", [inputs]).layers[0].count == 9


def test_a_full_covariance_is_refused_above_its_limit_and_measured_at_it() -> None:
    limit = nn.Sequential(nn.BatchNorm1d(MAX_COVARIANCE_CHANNELS))
    covariance = batch_norm_inputs(limit, [draw(3, MAX_COVARIANCE_CHANNELS)], covariance=True).layers[0].covariance
    assert covariance is not None
    assert covariance.shape == (512, 512)
    above = nn.Sequential(nn.BatchNorm1d(513))
    with pytest.raises(InvalidInput, match="layer 0: got 513 channels, expected at most 512"):
        batch_norm_inputs(above, [draw(3, 513)], covariance=True)
    assert batch_norm_inputs(above, [draw(3, 513)]).layers[0].channels == 513


def test_the_inputs_of_a_linear_head_have_their_channels_last() -> None:
    """(n, positions, features) = (5, 4, 3): 20 values for each of 3 features."""
    model, inputs = nn.Sequential(nn.Linear(3, 2)), draw(5, 4, 3)
    stats = head_inputs(model, "0", [inputs], covariance=True)
    assert (stats.samples, stats.layer_names) == (5, ("0",))
    require_moments(stats.layers[0], inputs.double().numpy().reshape(20, 3).T)


def test_the_inputs_of_a_convolutional_head_have_their_channels_second() -> None:
    model = ZOO["mobilenet"].make()
    inputs = draw(6, 2, 6, 6)
    require_moments(head_inputs(model, "classifier", [inputs]).layers[0], activations(model, "classifier", inputs))


def test_running_statistics_are_read_as_they_stand() -> None:
    """One training batch with momentum 0.1 from mean 0, variance 1: 0.1 * 4 = 0.4 and 0.9 + 0.1 * 8 = 1.7, because
    torch tracks the unbiased variance of 2 and 6, which is 8."""
    model = nn.Sequential(nn.BatchNorm1d(1))
    model(torch.tensor([[2.0], [6.0]]))
    stats = running_statistics(model, samples=40)
    layer = stats.layers[0]
    assert (stats.samples, layer.name, layer.count, layer.covariance) == (40, "0", 40, None)
    np.testing.assert_allclose((layer.mean[0], layer.variance[0]), (0.4, 1.7), rtol=1e-6)
    model(torch.tensor([[2.0], [6.0]]))
    np.testing.assert_allclose(layer.mean, [0.4], rtol=1e-6)


def test_cumulative_running_statistics_are_the_mean_over_batches() -> None:
    """momentum=None: after batches with means 4 and 10 the running mean is 7."""
    model = nn.Sequential(nn.BatchNorm1d(1, momentum=None))
    for values in ((2.0, 6.0), (9.0, 11.0)):
        model(torch.tensor(values)[:, None])
    np.testing.assert_allclose(running_statistics(model, samples=4).layers[0].mean, [7.0], rtol=1e-6)


def test_a_layer_without_running_statistics_is_named_with_the_way_out() -> None:
    with pytest.raises(InvalidInput, match=r"layer 1: got track_running_stats=False.*Use fedap instead of f-fedap"):
        running_statistics(ZOO["untracked"].make(), samples=4)


def test_untracked_batch_norm_is_measured_before_it_normalises() -> None:
    model = ZOO["untracked"].make()
    inputs = draw(12, 4)
    linear = model.get_submodule("0")
    assert isinstance(linear, nn.Linear)
    entering = F.linear(inputs, linear.weight, linear.bias).detach().double().numpy().T
    require_moments(batch_norm_inputs(model, in_batches(inputs, 6)).layers[0], entering, within=1e-7)
