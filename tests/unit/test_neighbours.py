"""Claims about a W with few givers per row: its laws, rows made alone, and the product by entries."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.aggregation import entries_of, mix, mix_entries, mix_sparse
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.distances import diagonal_distances, feature_rows, layer_features, total_distance
from fedap_core.errors import InvalidInput
from fedap_core.mixing import keep_nearest, mixing_from_distances, mixing_rows, restrict
from fedap_core.strategies import Evidence, make_strategy

RNG = np.random.default_rng(5)
MEMBERS = 40


def stats_of(members: int) -> tuple[BnStats, ...]:
    def layer(name: str, channels: int) -> LayerMoments:
        return LayerMoments(
            name=name, count=100, mean=RNG.standard_normal(channels), variance=RNG.random(channels) + 0.1
        )

    return tuple(BnStats(samples=20, layers=(layer("a", 6), layer("b", 16))) for _ in range(members))


STATS = stats_of(MEMBERS)
DENSE = mixing_from_distances(total_distance(diagonal_distances(STATS)), self_weight=0.4)
EVERYBODY = np.ones(MEMBERS, dtype=np.bool_)


def test_rows_that_are_made_alone_have_the_bits_of_the_whole_matrix() -> None:
    places = [0, 7, 39]
    distances = feature_rows(layer_features(STATS), places)
    assert np.array_equal(distances, total_distance(diagonal_distances(STATS))[places])
    assert np.array_equal(mixing_rows(distances, places, self_weight=0.4), DENSE[places])


def test_restricted_rows_have_the_bits_of_the_restricted_matrix() -> None:
    usable, own = RNG.random(MEMBERS) < 0.5, np.zeros(MEMBERS, dtype=np.bool_)
    own[np.flatnonzero(usable)[:5]] = True
    discount = RNG.random(MEMBERS)
    places = [3, 20, int(np.flatnonzero(own)[0])]
    whole = restrict(DENSE, usable=usable, own=own, discount=discount, self_weight=0.4)
    rows = restrict(DENSE[places], usable=usable, own=own, discount=discount, self_weight=0.4, places=places)
    assert np.array_equal(rows, whole[places])


@pytest.mark.parametrize("neighbours", [1, 8, 39])
def test_a_row_keeps_its_nearest_its_own_weight_and_its_sum(neighbours: int) -> None:
    sparse = keep_nearest(DENSE, range(MEMBERS), usable=EVERYBODY, neighbours=neighbours)
    assert np.allclose(sparse.sum(axis=1), 1.0, atol=1e-12)
    assert (sparse.diagonal() == 0.4).all()
    for row, dense, place in zip(sparse, DENSE, range(MEMBERS), strict=True):
        others = np.delete(np.arange(MEMBERS), place)
        kept = others[row[others] > 0]
        assert len(kept) == neighbours
        assert dense[kept].min() >= np.sort(dense[others])[-neighbours]
    assert np.array_equal(keep_nearest(sparse, range(MEMBERS), usable=EVERYBODY, neighbours=neighbours), sparse)


def test_neighbours_are_looked_for_among_those_whose_update_can_be_used() -> None:
    usable = np.zeros(MEMBERS, dtype=np.bool_)
    usable[[1, 2, 3]] = True
    row = keep_nearest(DENSE[[0]], [0], usable=usable, neighbours=2)[0]
    assert set(np.flatnonzero(row)) < {0, 1, 2, 3}
    assert np.count_nonzero(row) == 3
    assert row.sum() == pytest.approx(1.0)


def test_as_many_neighbours_as_members_leave_fedap_as_it_is() -> None:
    evidence = Evidence(counts=(10,) * MEMBERS, stats=STATS)
    plain, near = make_strategy("fedap"), make_strategy("fedap", {"neighbours": MEMBERS})
    assert np.array_equal(
        near.narrowed(near.mixing(evidence).weights, usable=EVERYBODY), plain.mixing(evidence).weights
    )


def test_a_negative_number_of_neighbours_is_refused() -> None:
    with pytest.raises(InvalidInput, match="or 0 for all"):
        make_strategy("fedap", {"neighbours": -1})


@pytest.mark.parametrize("parameters", [0, 5, 70_000])
def test_the_product_by_entries_is_that_of_the_whole_matrix(parameters: int) -> None:
    sparse = keep_nearest(DENSE, range(MEMBERS), usable=EVERYBODY, neighbours=4)
    updates = [RNG.standard_normal(parameters, dtype=np.float32) for _ in range(MEMBERS)]
    expected = [np.empty_like(one) for one in updates]
    mix(sparse, updates, expected)

    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    def write(start: int, mixed: Float32Array) -> None:
        for target, row in zip(updates, mixed, strict=True):  # in place: a tile is read before it is written
            target[start : start + row.size] = row

    mix_sparse(sparse, parameters, read=read, write=write)
    for one, other in zip(updates, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("remembered", [1, 16])
def test_remembered_entries_give_the_bits_of_the_whole_row(
    remembered: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one entry remembered per neighbour most rows find too few usable givers and are made anew."""
    monkeypatch.setattr("fedap_core.neighbours.REMEMBERED", remembered)
    stats = (*STATS[:-2], STATS[0], STATS[0])  # three twins, who have weight for each other alone
    strategy = make_strategy("fedap", {"neighbours": 4, "self_weight": 0.4})
    evidence = Evidence(counts=(10,) * MEMBERS, stats=stats)
    whole, nearest = strategy.mixing(evidence), strategy.nearest(evidence)
    usable = np.random.default_rng(3).random(MEMBERS) < share
    usable[5] = True
    own, discount = usable & (np.arange(MEMBERS) % 2 == 0), np.linspace(0.1, 1.0, MEMBERS)
    expected = strategy.narrowed(whole.weights, usable=usable)
    assert nearest is not None
    assert whole.similarity is not None
    assert np.array_equal(nearest.similarity, whole.similarity)
    assert np.array_equal(nearest.rows(range(MEMBERS), usable=usable, neighbours=4), expected)
    restricted = strategy.restrict(expected, usable=usable, own=own, discount=discount)
    some = [3, 17, 38]
    rows = nearest.rows(some, usable=usable, neighbours=4)
    found = strategy.restrict(rows, usable=usable, own=own, discount=discount, places=some)
    assert np.array_equal(found, restricted[some])


@pytest.mark.parametrize("option", ["max_peer_weight", "min_similarity"])
def test_options_that_look_at_all_of_w_have_no_shorter_form(option: str) -> None:
    evidence = Evidence(counts=(10,) * MEMBERS, stats=STATS)
    assert make_strategy("fedap", {"neighbours": 4, option: 0.5}).nearest(evidence) is None
    assert make_strategy("fedap").nearest(evidence) is None
    assert make_strategy("fedap", {"neighbours": MEMBERS}).nearest(evidence) is None


def test_the_product_by_entries_has_the_same_bits_tile_by_tile_and_row_by_row() -> None:
    sparse = keep_nearest(DENSE, range(MEMBERS), usable=EVERYBODY, neighbours=4)
    updates = [RNG.standard_normal(70_001, dtype=np.float32) for _ in range(MEMBERS)]
    by_rows, by_tiles = ([np.empty_like(one) for one in updates] for _ in range(2))

    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    def write(start: int, mixed: Float32Array) -> None:
        for target, row in zip(by_tiles, mixed, strict=True):
            target[start : start + row.size] = row

    mix_sparse(sparse, 70_001, read=read, write=write)
    mix_entries(entries_of(sparse), updates, by_rows)
    assert all(np.array_equal(one, other) for one, other in zip(by_rows, by_tiles, strict=True))
