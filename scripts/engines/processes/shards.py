"""What each participant is given before it starts: its own samples with its own split, as a file only it reads.

The split is the cohort's, to the sample and in its order, so that a participant trains on what the inline engine's
client of that name trains on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from participant.data.shard import Split, save_npz
from scripts.run.cohort import Client, Cohort


def write_shard(path: Path, cohort: Cohort, client: Client) -> None:
    """One client's samples, part after part, and the split that says which is which."""
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
    """A shard for every client, by name; those that are already there are kept: files are whole or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {client.name: shard_path(folder, client.name) for client in cohort.clients}
    for client in cohort.clients:
        if not paths[client.name].exists():
            write_shard(paths[client.name], cohort, client)
    return paths


def shard_path(folder: Path, client: str) -> Path:
    """Where a client's shard is."""
    return folder / f"{client}.npz"
