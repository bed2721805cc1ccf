"""Claims about W as files have it: whole or sparse, it says the same; clients that are alike share a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from scripts.run.clusters import MOST_CLUSTERS, clusters_of
from scripts.run.mixing_record import MixingRecord, SparseMixingRecord, read_mixing_record

CLUSTERS = (0, 0, 1, 1)
WHOLE = [[0.5, 0.4, 0.1, 0.0], [0.3, 0.5, 0.2, 0.0], [0.1, 0.0, 0.5, 0.4], [0.2, 0.0, 0.3, 0.5]]
SPARSE = {
    "neighbours": [[1, 2], [0, 2], [3, 0], [2, 0]],
    "neighbour_weights": [[0.4, 0.1], [0.3, 0.2], [0.4, 0.1], [0.3, 0.2]],
    "self_weight": 0.5,
}


def written(folder: Path, **described: object) -> MixingRecord | SparseMixingRecord:
    path = folder / "mixing.json"
    path.write_text(json.dumps({"members": list("abcd"), "from_round": 2, "clusters": CLUSTERS, **described}))
    found = read_mixing_record(path)
    assert found is not None
    return found


def test_sparse_and_whole_w_say_the_same(tmp_path: Path) -> None:
    """By hand: clients 0 and 1 take (0.4 + 0.3) / 2 from their own cluster and (0.1 + 0.2) / 2 from the other."""
    sparse, whole = written(tmp_path, **SPARSE), written(tmp_path, weights=WHOLE)
    assert isinstance(sparse, SparseMixingRecord)
    assert isinstance(whole, MixingRecord)
    assert len(sparse) == len(whole) == 4
    assert sparse.from_round == whole.from_round == 2
    assert sparse.is_personal
    assert whole.is_personal
    for client in range(4):
        np.testing.assert_array_equal(sparse.row(client), whole.row(client))
    for found in (sparse, whole):
        np.testing.assert_allclose(found.between_clusters(), [[0.35, 0.15], [0.15, 0.35]], rtol=1e-12)


def test_clusters_of_another_number_of_clients_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one for each of 4 clients"):
        MixingRecord(weights=np.array(WHOLE), clusters=(0, 1))
    with pytest.raises(InvalidInput, match="a neighbour for each weight"):
        SparseMixingRecord(neighbours=np.zeros((3, 2), dtype=np.int64), weights=np.zeros((3, 1)), self_weight=0.5)


def test_alike_clients_share_a_cluster_and_the_largest_comes_first() -> None:
    """Equal clients in fewer groups than there may be clusters: every group is one."""
    sizes = (10, 60, 30)
    points = np.repeat(np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]]), sizes, axis=0)
    assert clusters_of(points) == [2] * 10 + [0] * 60 + [1] * 30


def test_clusters_are_the_same_every_time_and_not_too_many() -> None:
    points = np.random.default_rng(3).normal(size=(400, 5))
    first = clusters_of(points)
    assert first == clusters_of(points)
    assert set(first) == set(range(max(first) + 1))
    assert 1 < len(set(first)) <= MOST_CLUSTERS
