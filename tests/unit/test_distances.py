"""Claims about the distance between clients: the numbers of eq. 4-6, and what cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.distances import diagonal_distances, full_distances, total_distance
from fedap_core.errors import InvalidInput

Matrix = list[list[float]]


def layer(mean: list[float], variance: list[float], *, name: str = "bn1") -> LayerMoments:
    return LayerMoments(name=name, count=8, mean=np.array(mean), variance=np.array(variance))


def full_layer(mean: list[float], covariance: Matrix) -> LayerMoments:
    table = np.array(covariance)
    return LayerMoments(name="bn1", count=8, mean=np.array(mean), variance=table.diagonal(), covariance=table)


def client(*layers: LayerMoments) -> BnStats:
    return BnStats(samples=8, layers=layers)


def test_diagonal_distance_is_euclidean_in_means_and_deviations() -> None:
    """a = N((0, 0), (1, 4)), b = N((3, 0), (1, 4)), c = N((0, 4), (16, 4)); deviations (1, 2), (1, 2), (4, 2).

    a-b: sqrt(3^2) = 3. a-c: sqrt(4^2 + (4-1)^2) = 5. b-c: sqrt(3^2 + 4^2 + 3^2) = sqrt(34).
    """
    stats = [client(layer([0, 0], [1, 4])), client(layer([3, 0], [1, 4])), client(layer([0, 4], [16, 4]))]
    root = 34**0.5
    expected = [[[0, 3, 5], [3, 0, root], [5, root, 0]]]
    np.testing.assert_allclose(diagonal_distances(stats), expected, rtol=1e-15)


def test_total_distance_sums_the_layers_after_the_root() -> None:
    """Layers with 3 and 4 channels' worth of shift: sqrt(9) + sqrt(16) = 7, not sqrt(25) = 5 (eq. 6)."""
    near = client(layer([0], [0], name="a"), layer([0, 0], [1, 1], name="b"))
    far = client(layer([3], [0], name="a"), layer([0, 4], [1, 1], name="b"))
    per_layer = diagonal_distances([near, far])
    assert per_layer[:, 0, 1].tolist() == [3.0, 4.0]
    assert total_distance(per_layer).tolist() == [[0.0, 7.0], [7.0, 0.0]]


def test_full_distance_sees_correlation_that_variances_hide() -> None:
    """I against [[2.5, 1.5], [1.5, 2.5]] (eigenvalues 4 and 1): they commute, so (2-1)^2 + (1-1)^2 = 1.

    With the mean moved by (3, 4): sqrt(25 + 1).
    """
    wide: Matrix = [[2.5, 1.5], [1.5, 2.5]]
    stats = [client(full_layer([0, 0], [[1, 0], [0, 1]])), client(full_layer([3, 4], wide))]
    np.testing.assert_allclose(full_distances(stats)[0], [[0, 26**0.5], [26**0.5, 0]], rtol=1e-14)
    mirrored = client(full_layer([3, 4], [[2.5, -1.5], [-1.5, 2.5]]))
    assert diagonal_distances([stats[1], mirrored])[0, 0, 1] == 0.0
    assert full_distances([stats[1], mirrored])[0, 0, 1] == pytest.approx(2**0.5, rel=1e-14)  # 2 (2-1)^2


def test_full_distance_of_matrices_that_do_not_commute() -> None:
    """diag(4, 1) against [[2, 1], [1, 2]]: their product has trace 10 and determinant 12.

    For 2 x 2, tr(M^(1/2)) = sqrt(tr M + 2 sqrt(det M)), so W2^2 = 5 + 4 - 2 sqrt(10 + 2 sqrt(12)) = 0.77122...
    """
    stats = [client(full_layer([0, 0], [[4, 0], [0, 1]])), client(full_layer([0, 0], [[2, 1], [1, 2]]))]
    expected = 9 - 2 * (10 + 2 * 12**0.5) ** 0.5
    assert full_distances(stats)[0, 0, 1] ** 2 == pytest.approx(expected, rel=1e-12)


def test_full_distance_handles_singular_covariances() -> None:
    """Lines along (1, 0) and (0, 1), each of variance 1, are orthogonal: W2^2 = 1 + 1 - 0 = 2. A point: variance 0."""
    tables: list[Matrix] = [[[1, 0], [0, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]]
    stats = [client(full_layer([0, 0], table)) for table in tables]
    np.testing.assert_allclose(full_distances(stats)[0] ** 2, [[0, 2, 1], [2, 0, 1], [1, 1, 0]], atol=1e-14)


def test_identical_clients_have_distance_exactly_zero() -> None:
    values = np.random.default_rng(0).normal(size=(5, 40))
    stats = [client(LayerMoments.of("bn1", values, with_covariance=True))] * 3
    assert not diagonal_distances(stats).any()
    assert not full_distances(stats).any()


def test_constant_channels_are_comparable() -> None:
    """Variances 0 and 9: deviations 0 and 3."""
    assert diagonal_distances([client(layer([1], [0])), client(layer([1], [9]))])[0, 0, 1] == 3.0


def test_lone_client_has_distance_zero_to_itself() -> None:
    lone = client(full_layer([1, 2], [[1, 0], [0, 1]]))
    assert diagonal_distances([lone]).tolist() == [[[0.0]]]
    assert full_distances([lone]).tolist() == [[[0.0]]]


def test_close_clients_keep_their_digits() -> None:
    """Means 1e6 and 1e6 + 2^-10: the expanded square x^2 - 2xy + y^2 would be lost in rounding."""
    stats = [client(layer([1e6], [1])), client(layer([1e6 + 2**-10], [1]))]
    assert diagonal_distances(stats)[0, 0, 1] == 2**-10


def test_clients_with_other_layers_are_refused() -> None:
    stats = [client(layer([0], [1])), client(layer([0], [1], name="bn9"))]
    with pytest.raises(InvalidInput, match="client 1: got bn9, expected the layers of client 0: bn1"):
        diagonal_distances(stats)


def test_clients_with_other_channels_are_refused_by_layer_name() -> None:
    stats = [client(layer([0], [1])), client(layer([0], [1])), client(layer([0, 0], [1, 1]))]
    with pytest.raises(InvalidInput, match="client 2, layer 'bn1': got 2 channels, expected 1"):
        diagonal_distances(stats)


def test_full_distance_without_covariance_is_refused_by_layer_name() -> None:
    with pytest.raises(InvalidInput, match="layer 'bn1': got variances only"):
        full_distances([client(layer([0], [1]))])


def test_moments_too_large_to_compare_are_refused_by_layer_name() -> None:
    with pytest.raises(InvalidInput, match="layer 'bn1': got moments too large"):
        diagonal_distances([client(layer([1e200], [1])), client(layer([-1e200], [1]))])


def test_no_clients_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no clients"):
        diagonal_distances([])


@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 3)])
def test_total_distance_needs_a_table_per_layer(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="expected \\(layers, clients, clients\\)"):
        total_distance(np.zeros(shape))
