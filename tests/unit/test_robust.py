"""Claims about robust mixing: what is limited, what is left bit for bit, and that tiles and tensors change nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedap_core.aggregation import TILE_COLUMNS, mix
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import floored_distances, mixing_from_counts
from fedap_core.robust import Mixture, Robustness, centre, kept_shares, limited, robust_mix_rows, squared_distances
from fedap_core.strategies import STRATEGIES, make_strategy

LIMIT = Robustness(rule="limit")


def honest(members: int, size: int = 3000, *, seed: int = 0) -> list[Float32Array]:
    """A common model and steps of equal length in different directions."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal(size)
    return [np.asarray(start + 0.01 * rng.standard_normal(size), dtype=np.float32) for _ in range(members)]


def common(weights: FloatArray, sizes: tuple[int, ...] = (3000,)) -> Mixture:
    return Mixture(weights=weights, own=tuple(range(len(weights))), personal=False, sizes=sizes, trained=len(sizes))


def mixed(mixture: Mixture, rule: Robustness, updates: list[Float32Array]) -> list[Float32Array]:
    rows = [np.empty_like(updates[0]) for _ in mixture.weights]
    robust_mix_rows(mixture, rule, updates, rows)
    return rows


@pytest.mark.parametrize("members", [1, 2, 3, 5, 20])
def test_the_limit_leaves_honest_members_bit_for_bit_as_they_are(members: int) -> None:
    updates = honest(members)
    weights = mixing_from_counts(np.arange(10, 10 + members))
    plain = [np.empty_like(one) for one in updates]
    mix(weights, updates, plain)
    found = mixed(common(weights, (1000, 1990, 10)), LIMIT, updates)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in plain]


@pytest.mark.parametrize("members", [3, 4, 5, 10])
@pytest.mark.parametrize("times", [-10.0, 50.0])
def test_an_update_far_from_the_others_counts_as_absent(members: int, times: float) -> None:
    """The steps of the honest ones are 0.01 a value; the last one's are ten or fifty times that."""
    updates = honest(members)
    updates[-1] = updates[0] + np.float32(times) * (updates[1] - updates[0])
    found = mixed(common(mixing_from_counts(np.ones(members))), LIMIT, updates)
    np.testing.assert_allclose(found[0], np.mean(updates[:-1], axis=0), atol=1e-5)


def test_an_outlier_between_one_and_two_limits_is_scaled_back() -> None:
    """Distances to the others 3 times the typical one, factor 2: two thirds of it count."""
    squared = np.full((1, 5, 5), 1.0)
    squared[0, 4, :] = squared[0, :, 4] = 9.0
    np.fill_diagonal(squared[0], 0.0)
    np.testing.assert_allclose(kept_shares(squared, (100,), trained=1, factor=2.0), [1, 1, 1, 1, 2 / 3])
    assert kept_shares(squared, (100,), trained=1, factor=3.0).tolist() == [1.0] * 5
    assert kept_shares(squared, (100,), trained=1, factor=1.0).tolist() == [1.0] * 4 + [0.0]


def test_a_large_step_hidden_in_a_small_tensor_is_found() -> None:
    """One step's length (0.01 * sqrt(3000) = 0.55) put into 10 values, whose honest distance is 0.04."""
    updates = honest(5)
    updates[4][-10:] += np.float32(0.55)
    weights = mixing_from_counts(np.ones(5))
    found = mixed(common(weights, (2990, 10)), LIMIT, updates)[0]
    assert np.abs(found[-10:] - np.mean([one[-10:] for one in updates[:4]], axis=0)).max() < 0.02


def test_a_tensor_that_hardly_moves_makes_nobody_an_outlier() -> None:
    """Biases before batch norm have no gradient: what differs there is rounding."""
    rng = np.random.default_rng(3)
    updates = honest(5)
    for place, update in enumerate(updates):
        update[-100:] = 1.0 + 1e-7 * place**3 * rng.standard_normal(100)
    distances = squared_distances((2900, 100), 5, _reader(updates))
    assert kept_shares(distances, (2900, 100), trained=2, factor=2.0).tolist() == [1.0] * 5


def _reader(updates: list[Float32Array]):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    return read


def test_distances_follow_tensors_across_tiles() -> None:
    """Tensors that begin and end anywhere, more values than a tile holds, weights far larger than differences."""
    sizes = (10, TILE_COLUMNS - 3, 7, TILE_COLUMNS + 20)
    updates = honest(3, sum(sizes))
    found = squared_distances(sizes, 3, _reader(updates))
    edges = np.cumsum([0, *sizes])
    for tensor, (start, stop) in enumerate(itertools.pairwise(edges)):
        apart = (updates[0][start:stop].astype(np.float64) - updates[2][start:stop]) ** 2
        np.testing.assert_allclose(found[tensor, 0, 2], apart.sum(), rtol=1e-9)


def test_no_member_gives_more_than_its_share_of_a_common_model() -> None:
    """Counts 1, 1, 1, 1 and 1e6: a quarter for the last, the rest in equal parts."""
    weights = mixing_from_counts(np.asarray([1, 1, 1, 1, 1e6]))
    found = limited(common(weights), np.ones(5), max_share=0.25)
    np.testing.assert_allclose(found[0], [0.1875] * 4 + [0.25])


def test_a_twin_gives_no_more_than_its_share_of_what_a_personal_model_takes() -> None:
    """Half is one's own; of the other half a twin has all, and may have 1.25 / 4 of it. The rest stays one's own."""
    weights = np.asarray([[0.5, 0.0, 0.0, 0.0, 0.5]])
    mixture = Mixture(weights=weights, own=(0,), personal=True, sizes=(3000,), trained=1)
    found = limited(mixture, np.ones(5), max_share=0.25)
    np.testing.assert_allclose(found, [[0.84375, 0.0, 0.0, 0.0, 0.15625]])


def test_what_an_outlier_loses_is_ones_own_where_the_model_is_personal() -> None:
    mixture = Mixture(weights=np.asarray([[0.6, 0.2, 0.2]]), own=(0,), personal=True, sizes=(3000,), trained=1)
    np.testing.assert_allclose(limited(mixture, np.asarray([0.0, 1.0, 0.0]), max_share=1.0), [[0.8, 0.2, 0.0]])


def test_running_statistics_may_differ_more_and_have_no_part_in_the_whole() -> None:
    """Distances of 1 among the trained; the last member's running statistics lie 10 away, then 40: 16 are admitted."""
    squared = np.ones((2, 5, 5)) - np.eye(5)
    squared[1, 4, :4] = squared[1, :4, 4] = 100.0
    assert kept_shares(squared, (10, 10), trained=1, factor=2.0).tolist() == [1.0] * 5
    squared[1, 4, :4] = squared[1, :4, 4] = 1600.0
    assert kept_shares(squared, (10, 10), trained=1, factor=2.0).tolist() == [1.0] * 4 + [0.0]


def test_a_copy_of_statistics_is_no_closer_than_a_share_of_the_typical_distance() -> None:
    """Everybody 4 apart, the last at the first one's place: 1 instead of 0, all else as it was."""
    distances = 4.0 * (np.ones((5, 5)) - np.eye(5))
    distances[0, 4] = distances[4, 0] = 0.0
    expected = distances.copy()
    expected[0, 4] = expected[4, 0] = 1.0
    np.testing.assert_array_equal(floored_distances(distances, floor=0.25), expected)
    np.testing.assert_array_equal(floored_distances(distances[:2, :2], floor=0.25), distances[:2, :2])


def test_median_and_trimmed_mean_are_the_textbooks() -> None:
    """Columns 1, 2, 3, 4, 100: median 3, without the ends the mean of 2, 3, 4."""
    table = np.asarray([[100], [1], [3], [2], [4]], dtype=np.float32)
    assert centre(table, "median").tolist() == [3.0]
    assert centre(table, "trimmed-mean").tolist() == [3.0]
    assert centre(table[:4], "median").tolist() == [2.5]


@pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
def test_a_centre_is_common_or_mixed_with_the_local_model(rule: str) -> None:
    updates = honest(5)
    weights = np.full((5, 5), 0.125) + 0.375 * np.eye(5)
    middle = centre(np.stack(updates), rule)
    found = mixed(common(weights), Robustness(rule=rule), updates)
    np.testing.assert_allclose(found[3], middle, atol=1e-6)
    personal = Mixture(weights=weights, own=tuple(range(5)), personal=True, sizes=(3000,), trained=1)
    found = mixed(personal, Robustness(rule=rule), updates)
    np.testing.assert_allclose(found[3], 0.5 * updates[3] + 0.5 * middle, atol=1e-6)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_algorithm_takes_the_options_and_refuses_others(name: str) -> None:
    assert make_strategy(name, {"robust": "limit", "robust_factor": "3"}).robustness == Robustness(
        rule="limit", factor=3.0
    )
    for option, value in (("robust", "krum"), ("robust_factor", 0.5), ("max_share", 0.0)):
        with pytest.raises(InvalidInput, match=option):
            make_strategy(name, {option: value})
