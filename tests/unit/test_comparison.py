"""Weights from the updates' values: products over chosen tensors, and what an affinity makes of a row."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.aggregation import TILE_COLUMNS, TileAccess
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.comparison import (
    UpdateComparison,
    compared_weights,
    cosines_of,
    pairwise_products,
    squared_distances_of,
)
from fedap_core.robust import Mixture, Robustness, robust_mix_rows
from fedap_core.strategies import make_strategy


def reader(updates: list[Float32Array]) -> TileAccess:
    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    return read


def drawn(members: int, size: int) -> list[Float32Array]:
    rng = np.random.default_rng(5)
    return [rng.normal(size=size).astype(np.float32) for _ in range(members)]


def test_products_are_of_the_chosen_tensors_across_tiles() -> None:
    sizes, chosen = (10, TILE_COLUMNS - 3, 7, TILE_COLUMNS + 20), (True, False, False, True)
    updates = drawn(3, sum(sizes))
    wanted = np.repeat(chosen, sizes)
    table = np.stack([one[wanted].astype(np.float64) for one in updates])
    found = pairwise_products(sizes, chosen, 3, reader(updates))
    np.testing.assert_allclose(found, table @ table.T, rtol=1e-9)
    apart = float(((table[0] - table[2]) ** 2).sum())
    assert squared_distances_of(found)[0, 2] == pytest.approx(apart)
    assert cosines_of(found).diagonal() == pytest.approx(np.ones(3))


def weighed(weights: FloatArray, own: tuple[int | None, ...], affinity: FloatArray, *, keeps_own: bool) -> FloatArray:
    comparison = UpdateComparison(chosen=(True,), affinity=lambda _products: affinity, keeps_own=keeps_own)
    return compared_weights(comparison, weights, own, sizes=(4,), read=reader(drawn(weights.shape[1], 4)))


def test_an_affinity_multiplies_what_is_taken_from_others() -> None:
    """0.4 stays; 0.3 * 1 and 0.3 * 3 share 0.6 as 1 to 3. Without an own weight 0.4 * 2 : 0.3 * 1 : 0.3 * 3."""
    row, affinity = np.asarray([[0.4, 0.3, 0.3]]), np.asarray([[2.0, 1.0, 3.0]] * 3)
    np.testing.assert_allclose(weighed(row, (0,), affinity, keeps_own=True), [[0.4, 0.15, 0.45]])
    np.testing.assert_allclose(weighed(row, (0,), affinity, keeps_own=False), [[0.4, 0.15, 0.45]])
    second = weighed(row, (1,), affinity, keeps_own=True)
    np.testing.assert_allclose(second, [[0.7 * 0.8 / 1.7, 0.3, 0.7 * 0.9 / 1.7]])


def test_who_has_not_reported_keeps_its_row_and_who_is_like_nobody_its_own_update() -> None:
    weights = np.asarray([[0.5, 0.5], [0.5, 0.5]])
    found = weighed(weights, (None, 1), np.zeros((2, 2)), keeps_own=True)
    assert found.tolist() == [[0.5, 0.5], [0.0, 1.0]]


@pytest.mark.parametrize("rule", ["none", "limit"])
def test_updates_are_mixed_by_the_compared_weights_in_place(rule: str) -> None:
    """Twins far from a third member: with a small sigma, FedAMP mixes the twins with each other alone."""
    updates = drawn(3, 50)
    updates[1] = updates[0] + np.float32(0.01)
    updates[2] = updates[0] + np.float32(0.1)
    strategy = make_strategy("fedamp", {"sigma": 0.001, "max_share": 1.0, "robust_factor": 1e6})
    weights = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
    comparison = UpdateComparison(chosen=(True,), affinity=strategy.affinity, keeps_own=True)
    mixture = Mixture(weights=weights, own=(0, 1, 2), personal=True, sizes=(50,), trained=1, comparison=comparison)
    expected = (updates[0] + updates[1]) / 2
    robust_mix_rows(mixture, Robustness(rule=rule, factor=1e6, max_share=1.0), updates, updates)
    np.testing.assert_allclose(updates[0], expected, atol=1e-6)


def test_heads_at_right_angles_give_each_other_nothing() -> None:
    found = make_strategy("pfedsim").affinity(np.asarray([[1.0, 0.0, 0.5], [0.0, 4.0, -1.0], [0.5, -1.0, 1.0]]))
    assert found[0, 1] == 0.0
    assert found[1, 2] == 0.0
    assert found[0, 2] == pytest.approx(np.log(2.0))
    assert found[0, 0] == pytest.approx(-np.log(1e-4))
