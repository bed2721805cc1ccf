"""Claims about the re-estimation of batch-norm statistics by one pass over somebody's own data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.reestimation import reestimate_batch_norm


def values(samples: int = 20, channels: int = 2) -> Tensor:
    drawn = np.random.default_rng(3).normal(5.0, 3.0, (samples, channels))
    return torch.from_numpy(drawn).to(torch.float32)


def running(layer: nn.BatchNorm1d) -> tuple[list[float], list[float]]:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return layer.running_mean.tolist(), layer.running_var.tolist()


def test_first_layer_holds_mean_and_unbiased_variance_of_the_data() -> None:
    """Channel values 1, 3, 5, 3 have mean 3 and unbiased variance (4 + 0 + 4 + 0) / 3 = 8 / 3."""
    layer = nn.BatchNorm1d(1)
    reestimate_batch_norm(nn.Sequential(layer), torch.split(torch.tensor([[1.0], [3.0], [5.0], [3.0]]), 2))
    mean, variance = running(layer)
    assert mean == pytest.approx([3.0])
    assert variance == pytest.approx([8 / 3])


def test_batches_of_other_sizes_give_the_same_statistics_in_the_first_layer() -> None:
    whole, cut = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    reestimate_batch_norm(nn.Sequential(whole), [values()])
    reestimate_batch_norm(nn.Sequential(cut), torch.split(values(), [3, 10, 7]))
    assert running(cut)[0] == pytest.approx(running(whole)[0], rel=1e-6)
    assert running(cut)[1] == pytest.approx(running(whole)[1], rel=1e-6)


def test_second_layer_sees_what_the_first_gives_once_it_fits() -> None:
    """Two BN layers in a row: the second's inputs are normalised, so mean 0 and variance n / (n - 1) = 20 / 19."""
    second = nn.BatchNorm1d(2, eps=1e-12)
    reestimate_batch_norm(nn.Sequential(nn.BatchNorm1d(2, eps=1e-12), second), [values()])
    mean, variance = running(second)
    assert mean == pytest.approx([0.0, 0.0], abs=1e-6)
    assert variance == pytest.approx([20 / 19] * 2, rel=1e-5)


def test_nothing_but_running_statistics_changes() -> None:
    layer = nn.BatchNorm1d(2, momentum=0.3)
    model = nn.Sequential(nn.Linear(2, 2), layer, nn.Dropout(0.5))
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    reestimate_batch_norm(model, [values()])
    after = model.state_dict()
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == {"1.running_mean", "1.running_var"}
    assert (layer.momentum, [module.training for module in model.modules()]) == (0.3, [True] * 4)


def test_dropout_stays_off_so_that_no_chance_is_involved() -> None:
    first, second = (nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2)) for _ in range(2))
    reestimate_batch_norm(first, [values()])
    reestimate_batch_norm(second, [values()])
    assert torch.equal(first.state_dict()["1.running_mean"], second.state_dict()["1.running_mean"])


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_layer_without_running_statistics_is_passed_over(by_hand: bool) -> None:
    """Made without them, or robbed of them later: the layer beside it is estimated all the same."""
    without, other = nn.BatchNorm1d(2, track_running_stats=by_hand), nn.BatchNorm1d(2)
    if by_hand:
        without.running_mean = without.running_var = None
    reestimate_batch_norm(nn.Sequential(other, without), [values()])
    assert without.running_mean is None
    assert running(other)[0] == pytest.approx(values().mean(0).tolist(), rel=1e-5)


def test_no_data_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one batch"):
        reestimate_batch_norm(nn.Sequential(nn.BatchNorm1d(2)), [])
