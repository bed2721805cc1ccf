"""Laws of moments and distances: any split merges to the whole; W2 is a metric, with and without covariance."""

from __future__ import annotations

from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.distances import diagonal_distances, full_distances, total_distance

seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([1e-6, 1.0, 1e6])


def channels_by_values(seed: int, channels: int, count: int, *, scale: float = 1.0, offset: float = 0.0) -> FloatArray:
    return np.random.default_rng(seed).normal(offset, scale, size=(channels, count))


@given(
    seed=seeds,
    channels=st.integers(1, 4),
    count=st.integers(1, 200),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    scale=scales,
    offset=st.sampled_from([0.0, 1.0, -300.0]),
)
@settings(max_examples=100, deadline=None)
def test_any_split_of_the_values_merges_to_the_whole(
    seed: int, channels: int, count: int, cuts: list[int], scale: float, offset: float
) -> None:
    """Within 1e-10 of the layer's own scale, for means, variances and covariances."""
    values = channels_by_values(seed, channels, count, scale=scale, offset=offset)
    parts = np.split(values, sorted({cut for cut in cuts if 0 < cut < count}), axis=1)
    whole = LayerMoments.of("bn", values, with_covariance=True)
    merged = reduce(LayerMoments.merge, (LayerMoments.of("bn", part, with_covariance=True) for part in parts))
    size = float(np.abs(values).max())
    assert merged.count == whole.count == count
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(merged.variance, whole.variance, rtol=1e-10, atol=1e-10 * scale * size)
    assert merged.covariance is not None
    assert whole.covariance is not None
    np.testing.assert_allclose(merged.covariance, whole.covariance, rtol=1e-10, atol=1e-10 * scale * size)


@given(seed=seeds, count=st.integers(2, 60), cut=st.integers(1, 59))
@settings(deadline=None)
def test_merging_does_not_depend_on_the_order(seed: int, count: int, cut: int) -> None:
    values = channels_by_values(seed, 3, count)
    first = LayerMoments.of("bn", values[:, : min(cut, count - 1)])
    second = LayerMoments.of("bn", values[:, min(cut, count - 1) :])
    there, back = first.merge(second), second.merge(first)
    np.testing.assert_allclose(there.mean, back.mean, rtol=0, atol=1e-14)
    np.testing.assert_allclose(there.variance, back.variance, rtol=1e-13)


@given(value=st.floats(-1e100, 1e100), counts=st.lists(st.integers(1, 50), min_size=1, max_size=6))
@settings(deadline=None)
def test_constant_channel_stays_constant_in_any_split(value: float, counts: list[int]) -> None:
    merged = reduce(LayerMoments.merge, (LayerMoments.of("bn", np.full((1, count), value)) for count in counts))
    assert merged.variance.tolist() == [0.0]
    assert merged.mean.tolist() == [value]


def clients(seed: int, count: int, channels: int, *, diagonal: bool = False) -> list[BnStats]:
    """Random clients with two layers; `diagonal` clears the covariances between channels."""
    rng = np.random.default_rng(seed)
    stats = []
    for _ in range(count):
        layers = []
        for name in ("a", "b"):
            root = rng.normal(size=(channels, int(rng.integers(1, channels + 2))))  # some of them singular
            covariance = root @ root.T
            covariance = np.diag(covariance.diagonal()) if diagonal else covariance
            mean = rng.normal(size=channels)
            variance = covariance.diagonal()
            moments = LayerMoments(name=name, count=9, mean=mean, variance=variance, covariance=covariance)
            layers.append(moments)
        stats.append(BnStats(samples=9, layers=tuple(layers)))
    return stats


@given(seed=seeds, count=st.integers(1, 6), channels=st.integers(1, 5), full=st.booleans())
@settings(max_examples=60, deadline=None)
def test_distance_is_a_metric(seed: int, count: int, channels: int, full: bool) -> None:
    stats = clients(seed, count, channels)
    per_layer = full_distances(stats) if full else diagonal_distances(stats)
    assert per_layer.shape == (2, count, count)
    total = total_distance(per_layer)
    assert (per_layer >= 0).all()
    assert (total == total.T).all()
    assert not total.diagonal().any()
    through = (total[:, :, None] + total[None, :, :]).min(axis=1)
    assert (total <= through + 1e-7).all()


@given(seed=seeds, channels=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_full_distance_equals_the_diagonal_one_where_channels_are_independent(seed: int, channels: int) -> None:
    stats = clients(seed, 4, channels, diagonal=True)
    np.testing.assert_allclose(full_distances(stats), diagonal_distances(stats), rtol=1e-10, atol=1e-12)


@given(seed=seeds, channels=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_full_distance_is_the_formula_of_the_paper(seed: int, channels: int) -> None:
    """Eq. 4 literally, its inner root through the eigenvalues of the product of both covariances."""
    first, second = clients(seed, 2, channels)
    found = full_distances([first, second])[:, 0, 1]
    for number, (mine, theirs) in enumerate(zip(first.layers, second.layers, strict=True)):
        assert mine.covariance is not None
        assert theirs.covariance is not None
        inner = np.sqrt(np.clip(np.linalg.eigvals(mine.covariance @ theirs.covariance).real, 0, None)).sum()
        traces = np.trace(mine.covariance) + np.trace(theirs.covariance)
        expected = np.square(mine.mean - theirs.mean).sum() + traces - 2 * inner
        np.testing.assert_allclose(found[number] ** 2, expected, rtol=1e-5, atol=1e-5)


@given(seed=seeds, count=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_distances_follow_the_clients_when_these_are_reordered(seed: int, count: int) -> None:
    stats = clients(seed, count, 3)
    order = np.random.default_rng(seed).permutation(count)
    reordered = diagonal_distances([stats[k] for k in order])
    assert reordered.tolist() == diagonal_distances(stats)[:, order][:, :, order].tolist()
