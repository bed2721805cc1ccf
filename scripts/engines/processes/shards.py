"""Writes what each participant gets before it starts: its own samples with its own split, in a file only it reads.

The split is exactly the cohort's, in the same order, so that a participant trains on the same samples as the inline
engine's client of that name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from participant.data.shard import Split, save_npz
from scripts.run.cohort import Client, Cohort


def write_shard(path: Path, cohort: Cohort, client: Client) -> None:
    """Write one client's samples, split by split, and the positions of each split."""
    sizes = [len(positions) for positions in client.splits.values()]
    ends = np.cumsum(sizes)
    places = {
        name: np.arange(end - size, end, dtype=np.int64)
        for name, size, end in zip(client.splits, sizes, ends, strict=True)
    }
    data = cohort.data.take(np.concatenate(list(client.splits.values())))
    split = Split(train=places["train"], test=places["test"], validation=places.get("validation"))
    save_npz(data, path, split)


def write_shards(folder: Path, cohort: Cohort) -> dict[str, Path]:
    """Write a shard for every client, by name; existing ones are kept, since files are written atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {client.name: shard_path(folder, client.name) for client in cohort.clients}
    for client in cohort.clients:
        if not paths[client.name].exists():
            write_shard(paths[client.name], cohort, client)
    return paths


def shard_path(folder: Path, client: str) -> Path:
    """Return the path of a client's shard."""
    return folder / f"{client}.npz"
