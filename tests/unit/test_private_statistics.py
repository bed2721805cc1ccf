"""Claims about private statistics: no unit moves them by more than its clip, and without noise they are the moments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.statistics import batch_norm_inputs, unit_inputs
from fedap_core.private_statistics import (
    VARIANCE_FLOOR,
    clipped_sum,
    moments_of,
    noise_in_distance,
    private_statistics,
    sensitivity,
    unit_vectors,
)


def model() -> nn.Module:
    made = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    norm = made[1]
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    return made


def test_without_noise_or_clip_and_with_a_sample_as_unit_they_are_the_exact_moments() -> None:
    net, x = model(), torch.randn(20, 1, 6, 6)
    exact = batch_norm_inputs(net, [x[:12], x[12:]])
    measured = unit_inputs(net, [x[:12], x[12:]], np.arange(20))
    found = private_statistics(measured, clip=1e9, noise_multiplier=0.0, noise=np.zeros(8))
    for one, other in zip(found.layers, exact.layers, strict=True):
        assert one.count == other.count
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-9)


def test_every_patient_counts_once_however_many_images_there_are() -> None:
    net, x = model(), torch.randn(5, 1, 6, 6)
    once = unit_inputs(net, [x], np.arange(5))
    again = torch.cat((x, x[:1], x[:1], x[:1]))
    repeated = unit_inputs(net, [again], np.array([0, 1, 2, 3, 4, 0, 0, 0]))
    np.testing.assert_allclose(repeated.vectors, once.vectors, rtol=1e-12)
    assert repeated.samples == 8


@given(st.integers(0, 2**32), st.floats(0.01, 100.0), st.floats(0.001, 1e6))
def test_one_unit_moves_the_sum_by_at_most_the_sensitivity(seed: int, clip: float, size: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0, 1, (6, 5))
    other = vectors.copy()
    other[2] = rng.normal(0, size, 5)
    moved = np.linalg.norm(clipped_sum(vectors, clip) - clipped_sum(other, clip))
    assert moved <= sensitivity(clip) * (1 + 1e-9)


def test_values_that_noise_cannot_bound_are_refused() -> None:
    with pytest.raises(InvalidInput, match="NaN or Inf"):
        clipped_sum(np.array([[1.0, np.inf]]), 1.0)


def test_noise_is_scaled_by_sensitivity_and_public_count() -> None:
    net, x = model(), torch.randn(20, 1, 6, 6)
    measured = unit_inputs(net, [x], np.arange(20))
    noise = np.ones(8)
    quiet = private_statistics(measured, clip=1e9, noise_multiplier=0.0, noise=noise)
    clip = float(np.median(measured.norms))
    loud = private_statistics(measured, clip=clip, noise_multiplier=0.5, noise=noise)
    clipped = private_statistics(measured, clip=clip, noise_multiplier=0.0, noise=noise)
    moved = loud.layers[0].mean - clipped.layers[0].mean
    np.testing.assert_allclose(moved, measured.scale[:4] * 0.5 * 2 * clip / 20, rtol=1e-9)
    assert not np.array_equal(clipped.layers[0].mean, quiet.layers[0].mean)
    expected = 0.5 * 2 * clip / 20 * np.linalg.norm(measured.scale)
    assert noise_in_distance(measured, clip=clip, noise_multiplier=0.5) == pytest.approx(expected)


def test_a_variance_that_noise_made_negative_is_floored() -> None:
    net, x = model(), torch.randn(20, 1, 6, 6)
    measured = unit_inputs(net, [x], np.arange(20))
    found = moments_of(measured.layers, np.full(8, -5.0), samples=20)
    np.testing.assert_array_equal(found.layers[0].variance, np.full(4, VARIANCE_FLOOR))


def test_units_must_name_every_sample() -> None:
    with pytest.raises(InvalidInput, match="one unit for each of 3 samples"):
        unit_vectors(np.zeros((3, 2)), np.array([0, 1]))
