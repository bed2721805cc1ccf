"""Claims about moments: what they are, what is refused, and how two sets become one."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput


def moments(
    name: str = "bn1",
    *,
    count: int = 4,
    mean: object = (0.0, 1.0),
    variance: object = (1.0, 2.0),
    covariance: object = None,
) -> LayerMoments:
    table = None if covariance is None else np.array(covariance, dtype=np.float64)
    return LayerMoments(name=name, count=count, mean=np.array(mean), variance=np.array(variance), covariance=table)


def test_moments_are_population_moments() -> None:
    """1, 2, 3, 6: mean 12 / 4 = 3, variance (4 + 1 + 0 + 9) / 4 = 3.5; the second channel is constant."""
    found = LayerMoments.of("bn1", [[1, 2, 3, 6], [4, 4, 4, 4]])
    assert (found.name, found.count, found.channels) == ("bn1", 4, 2)
    assert found.mean.tolist() == [3.0, 4.0]
    assert found.variance.tolist() == [3.5, 0.0]
    assert found.covariance is None


def test_covariance_is_a_population_covariance_with_the_variances_on_its_diagonal() -> None:
    """Deviations (-1, 1) and (-2, 2): products 1, 2, 4, each averaged over two values."""
    found = LayerMoments.of("bn1", [[1, 3], [2, 6]], with_covariance=True)
    assert found.covariance is not None
    assert found.covariance.tolist() == [[1.0, 2.0], [2.0, 4.0]]
    assert found.variance.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("with_covariance", [False, True])
@pytest.mark.parametrize("value", [0.1, -1e-3, 1e30])
def test_constant_channel_has_variance_exactly_zero(value: float, with_covariance: bool) -> None:
    """0.1 summed 1001 times and divided is not 0.1: a naive mean would leave a variance."""
    found = LayerMoments.of("bn1", np.full((1, 1001), value), with_covariance=with_covariance)
    assert found.variance.tolist() == [0.0]


def test_one_value_per_channel_has_variance_zero() -> None:
    found = LayerMoments.of("bn1", [[5.0], [7.0]])
    assert (found.count, found.mean.tolist(), found.variance.tolist()) == (1, [5.0, 7.0], [0.0, 0.0])


def test_float32_inputs_are_summed_in_float64() -> None:
    """2**24 + 1 is no float32 number, so a float32 sum of 2**24, 1 and 1 would stop at 2**24."""
    values = np.array([[2**24, 1, 1]], dtype=np.float32)
    assert LayerMoments.of("bn1", values).mean.tolist() == [(2**24 + 2) / 3]


def test_merge_gives_the_moments_of_all_values() -> None:
    """{1, 2} and {3, 6, 9}: mean 21 / 5 = 4.2; squares (1 + 4 + 9 + 36 + 81) / 5 = 26.2, less 4.2^2 = 17.64: 8.56."""
    merged = LayerMoments.of("bn1", [[1, 2]]).merge(LayerMoments.of("bn1", [[3, 6, 9]]))
    assert merged.count == 5
    assert merged.mean == pytest.approx([4.2], rel=1e-15)
    assert merged.variance == pytest.approx([8.56], rel=1e-15)


def test_merging_merges_covariances() -> None:
    values = np.array([[1.0, 3.0, 0.0, 8.0], [2.0, 6.0, 1.0, -4.0]])
    whole = LayerMoments.of("bn1", values, with_covariance=True)
    parts = [LayerMoments.of("bn1", values[:, [k]], with_covariance=True) for k in range(4)]
    merged = reduce(LayerMoments.merge, parts)
    assert whole.covariance is not None
    assert merged.covariance is not None
    np.testing.assert_allclose(merged.covariance, whole.covariance, rtol=1e-14)


@pytest.mark.parametrize(
    "other",
    [
        moments("bn2"),
        moments(mean=(0.0,), variance=(1.0,)),
        moments(covariance=[[1.0, 0.0], [0.0, 2.0]]),
    ],
)
def test_moments_of_different_layers_do_not_merge(other: LayerMoments) -> None:
    with pytest.raises(InvalidInput, match="layer 'bn1'"):
        moments().merge(other)


def test_moments_are_private_copies_that_nobody_can_change() -> None:
    mean: FloatArray = np.array([0.0, 1.0])
    found = LayerMoments(name="bn1", count=4, mean=mean, variance=np.ones(2))
    mean[0] = 99.0
    assert found.mean[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        found.mean[0] = 99.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 0}, "count: got 0"),
        ({"mean": (0.0, float("nan"))}, "mean: got NaN or Inf"),
        ({"mean": ((0.0, 1.0),)}, r"mean: got shape \(1, 2\)"),
        ({"variance": (1.0, float("inf"))}, "variance: got NaN or Inf"),
        ({"variance": (1.0, -1e-9)}, "variance: got -1e-09"),
        ({"variance": (1.0,)}, r"mean \(2,\), variance \(1,\)"),
        ({"mean": (), "variance": ()}, r"mean \(0,\)"),
        ({"covariance": [[1.0]]}, r"covariance: got shape \(1, 1\)"),
        ({"covariance": [[1.0, float("nan")], [0.0, 2.0]]}, "covariance: got NaN or Inf"),
        ({"covariance": [[1.0, 0.5], [0.0, 2.0]]}, "asymmetric"),
        ({"covariance": [[1.0, 0.5], [0.5, 3.0]]}, "diagonal other than the variances"),
    ],
)
def test_wrong_moments_are_refused_by_layer_name(wrong: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"name": "features.bn3", **wrong}
    with pytest.raises(InvalidInput, match=f"layer 'features.bn3', .*{message}"):
        moments(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_inputs_that_are_not_finite_are_refused_by_layer_name(bad: float) -> None:
    with pytest.raises(InvalidInput, match=r"layer 'features\.bn3': got NaN or Inf"):
        LayerMoments.of("features.bn3", [[1.0, bad]])


def test_moments_too_large_for_float64_are_refused_by_layer_name() -> None:
    with pytest.raises(InvalidInput, match="layer 'bn1', variance"):
        LayerMoments.of("bn1", [[1e200, -1e200]])
    with pytest.raises(InvalidInput, match="layer 'bn1', variance"):
        LayerMoments.of("bn1", [[1e200]]).merge(LayerMoments.of("bn1", [[-1e200]]))


@pytest.mark.parametrize("values", [[1.0, 2.0], [[]], np.zeros((0, 3)), np.zeros((2, 2, 2))])
def test_inputs_must_be_channels_by_values(values: object) -> None:
    with pytest.raises(InvalidInput, match="layer 'bn1': got shape"):
        LayerMoments.of("bn1", np.asarray(values))


def test_client_statistics_merge_layer_by_layer() -> None:
    """Layer a: {0} and {2} give mean 1, variance 1; layer b: {1} and {1} stay 1 with variance 0."""
    first = BnStats(samples=3, layers=(LayerMoments.of("a", [[0.0]]), LayerMoments.of("b", [[1.0]])))
    second = BnStats(samples=4, layers=(LayerMoments.of("a", [[2.0]]), LayerMoments.of("b", [[1.0]])))
    merged = first.merge(second)
    assert (merged.samples, merged.layer_names) == (7, ("a", "b"))
    assert [float(layer.mean[0]) for layer in merged.layers] == [1.0, 1.0]
    assert [float(layer.variance[0]) for layer in merged.layers] == [1.0, 0.0]


def test_client_statistics_of_different_models_do_not_merge() -> None:
    with pytest.raises(InvalidInput, match="expected the layers bn1"):
        BnStats(samples=1, layers=(moments("bn1"),)).merge(BnStats(samples=1, layers=(moments("bn2"),)))


@pytest.mark.parametrize(
    ("samples", "layers", "message"),
    [
        (0, (moments(),), "samples: got 0"),
        (1, (), "at least one layer"),
        (1, (moments(), moments()), "every layer name once"),
    ],
)
def test_wrong_client_statistics_are_refused(samples: int, layers: tuple[LayerMoments, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        BnStats(samples=samples, layers=layers)
