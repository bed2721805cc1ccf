"""Reads W from a run's files: the whole matrix, or each client's nearest others if there are many clients.

Both forms say how much a client takes from each other one and, with many clients, one cluster from another. Decides
nothing about W itself; `run_folder` writes these files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.errors import InvalidInput
from scripts.run.damage import intact


@dataclass(frozen=True, kw_only=True, eq=False)
class MixingRecord:
    """W and what explains it. weights: (n, n); distances: (L, n, n) or None; from_round: counted from 0.

    similarity: of each client to the one most like it; empty if it was not kept. clusters: the cluster of each client;
    empty if there are few clients.
    """

    weights: FloatArray
    layers: tuple[str, ...] = ()
    distances: FloatArray | None = None
    from_round: int = 0
    similarity: tuple[float, ...] = ()
    clusters: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.weights)
        if self.weights.shape != (count, count):
            raise InvalidInput("mixing.weights", f"shape {self.weights.shape}", "a square matrix")
        if self.distances is not None and self.distances.shape != (len(self.layers), count, count):
            expected = f"{(len(self.layers), count, count)}, one matrix per layer"
            raise InvalidInput("mixing.distances", f"shape {self.distances.shape}", expected)
        _require_clusters(self.clusters, count)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def is_personal(self) -> bool:
        """Whether W treats clients differently: its rows differ, and not every client keeps only its own model."""
        weights = self.weights
        if len(weights) < 2:
            return False
        return bool((abs(weights - weights[0]) > 1e-12).any()) and bool((weights.diagonal() < 1.0).any())

    def row(self, receiver: int) -> FloatArray:
        """(n,): how much this client takes from each client."""
        row: FloatArray = self.weights[receiver]
        return row

    def between_clusters(self) -> FloatArray:
        """(c, c): how much a client of one cluster takes from the others of each cluster, on average."""
        others = self.weights - np.diag(self.weights.diagonal())
        receivers, givers = np.nonzero(others)
        return _by_cluster(self.clusters, receivers, givers, others[receivers, givers])


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseMixingRecord:
    """W with k entries per row. neighbours, weights: (n, k), heaviest first; self_weight: what every client keeps."""

    neighbours: IndexArray
    weights: FloatArray
    self_weight: float
    from_round: int = 0
    similarity: tuple[float, ...] = ()
    clusters: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.neighbours.ndim != 2 or self.neighbours.shape != self.weights.shape:
            got = f"shapes {self.neighbours.shape} and {self.weights.shape}"
            raise InvalidInput("mixing.neighbours", got, "a neighbour for each weight")
        _require_clusters(self.clusters, len(self.neighbours))

    def __len__(self) -> int:
        return len(self.neighbours)

    @property
    def is_personal(self) -> bool:
        """Whether W treats clients differently."""
        return True

    def row(self, receiver: int) -> FloatArray:
        """(n,): how much this client takes from each client if all updates can be used."""
        row = np.zeros(len(self))
        row[self.neighbours[receiver]] = self.weights[receiver]
        row[receiver] = self.self_weight
        return row

    def between_clusters(self) -> FloatArray:
        """As in `MixingRecord`."""
        receivers = np.repeat(np.arange(len(self)), self.neighbours.shape[1])
        return _by_cluster(self.clusters, receivers, self.neighbours.ravel(), self.weights.ravel())


AnyMixing = MixingRecord | SparseMixingRecord


def read_mixing_record(path: Path) -> AnyMixing | None:
    """Read a `mixing.json`; None if there is no file."""
    if not path.exists():
        return None
    with intact(path):
        found = json.loads(path.read_text(encoding="utf-8"))
        known: dict[str, Any] = {
            "from_round": int(found.get("from_round", 0)),
            "similarity": tuple(map(float, found.get("similarity") or ())),
            "clusters": tuple(map(int, found.get("clusters") or ())),
        }
        if "neighbours" in found:
            return SparseMixingRecord(
                neighbours=np.array(found["neighbours"], dtype=np.int64),
                weights=np.array(found["neighbour_weights"], dtype=np.float64),
                self_weight=float(found["self_weight"]),
                **known,
            )
        distances = found.get("distances")
        return MixingRecord(
            weights=np.array(found["weights"], dtype=np.float64),
            layers=tuple(map(str, found.get("layers") or ())),
            distances=None if distances is None else np.array(distances, dtype=np.float64),
            **known,
        )


def _require_clusters(clusters: tuple[int, ...], count: int) -> None:
    if clusters and len(clusters) != count:
        raise InvalidInput("mixing.clusters", f"{len(clusters)}", f"one for each of {count} clients")


def _by_cluster(
    clusters: tuple[int, ...], receivers: NDArray[np.int64], givers: NDArray[np.int64], weights: FloatArray
) -> FloatArray:
    labels = np.asarray(clusters, dtype=np.int64)
    sizes = np.bincount(labels)
    found = np.zeros((len(sizes), len(sizes)))
    np.add.at(found, (labels[receivers], labels[givers]), weights)
    return np.asarray(found / sizes[:, None])
