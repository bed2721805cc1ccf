"""Decides which samples each client of a run has, and on which side of the split.

This is the only place where the lab sees all data at once. Everything is drawn from the run's seed, so algorithms
compared under one seed get identical clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedap_core import partition, splits
from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput, shortened
from fedap_core.randomness import generator
from participant.data import load_dataset
from participant.data.base import DataOptions, Dataset
from scripts.run.provenance import FINGERPRINT, fingerprint_of
from scripts.run.records import Json
from scripts.run.settings import LEAST_MIN_SAMPLES, CohortSettings

if TYPE_CHECKING:  # data are divided before torch is loaded, or while it loads
    import torch

    from fedap_core.nn.samples import Samples


_MOST_NAMED = 5
"""Sites in a message."""

SPLIT_NAMES = {2: ("train", "test"), 3: ("train", "validation", "test")}


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client: its name and, per split, the positions of its samples in the whole data set. It has no validation
    split if none of its training samples can be held back."""

    name: str
    splits: Mapping[str, IndexArray]


def model_file_name(client: str) -> str:
    """Return the name of a client's model file; escapes slashes, since a site may have any name."""
    return client.replace("%", "%25").replace("/", "%2F") + ".safetensors"


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """A data set and its division among clients, in name order."""

    data: Dataset
    clients: tuple[Client, ...]

    def samples(self, client: Client, device: torch.device) -> dict[str, Samples]:
        """Return one client's samples per split as tensors on `device`."""
        return {name: self.gather(indices, device) for name, indices in client.splits.items()}

    def gather(self, indices: IndexArray, device: torch.device) -> Samples:
        """Return the samples at these positions as tensors on `device`."""
        import torch

        from fedap_core.nn.samples import Samples

        return Samples(
            x=torch.from_numpy(self.data.x[indices]).to(device),
            y=torch.from_numpy(self.data.y[indices]).to(device),
            preprocessing=self.data.preprocessing,
        )

    def part(self, clients: Sequence[Client]) -> Cohort:
        """Return a cohort of only these clients and their samples, to be sent to another process."""
        kept = np.concatenate([positions for client in clients for positions in client.splits.values()])
        data = replace(
            self.data, x=self.data.x[kept], y=self.data.y[kept], group=self.data.group[kept],
            span=None, site=None, site_names=(),
        )  # fmt: skip
        found, at = [], 0
        for client in clients:
            splits = {}
            for name, positions in client.splits.items():
                splits[name] = np.arange(at, at + len(positions), dtype=np.int64)
                at += len(positions)
            found.append(Client(name=client.name, splits=splits))
        return Cohort(data=data, clients=tuple(found))

    @property
    def names(self) -> list[str]:
        return [client.name for client in self.clients]

    @property
    def judged(self) -> tuple[str, ...]:
        """The splits that models are evaluated on; a client may lack some."""
        return tuple(name for name in ("validation", "test") if any(name in client.splits for client in self.clients))

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the data."""
        return fingerprint_of(self.data)

    def described(self) -> Json:
        """What a run folder says of its clients and data."""
        counts = self.class_counts()
        described = {"clients": self.names, "classes": list(self.data.classes), "class_counts": counts}
        return described | {FINGERPRINT: self.fingerprint}

    def class_counts(self) -> list[list[int]]:
        """(clients, classes): how many samples of each class a client has, over all splits."""
        width = len(self.data.classes)
        return [
            np.bincount(self.data.y[np.concatenate(list(client.splits.values()))], minlength=width).tolist()
            for client in self.clients
        ]


def make_cohort(settings: CohortSettings, seed: int) -> Cohort:
    """Load the data and divide them among clients; the same settings and seed give the same clients."""
    data = load_dataset(settings.data, DataOptions(options=settings.data_options))
    shares = _divide(settings, data, seed)
    clients = [Client(name=name, splits=_parts_of(settings, data, name, own, seed)) for name, own in shares]
    _require_samples(settings, clients)
    return Cohort(data=data, clients=tuple(sorted(clients, key=lambda client: client.name)))


def _require_samples(settings: CohortSettings, clients: Sequence[Client]) -> None:
    """Refuse a cohort in which a client has too few samples, with what helps under its partition."""
    found = {client.name: tuple(client.splits.values()) for client in clients}
    small = [name for name, parts in found.items() if not splits.is_enough(parts, min_train=settings.min_samples)]
    if not small:
        return
    if settings.partition == "site":
        remedy = f"Remove from the data, or join with others: {shortened(small, _MOST_NAMED)}."
    elif settings.partition == "iid":
        remedy = "Use fewer clients."
    else:
        remedy = "Use fewer clients, a larger alpha, or another partition."
    if all(splits.is_enough(found[name], min_train=LEAST_MIN_SAMPLES) for name in small):
        remedy += " Or lower min_samples (compare --min-samples)."
    splits.require_samples(small[0], found[small[0]], min_train=settings.min_samples, remedy=remedy)


def _divide(settings: CohortSettings, data: Dataset, seed: int) -> list[tuple[str, IndexArray]]:
    rng = generator(seed, purpose="partition")
    if settings.partition == "site":
        if data.site is None:
            raise InvalidInput("partition", "site", f"data with sites ({data.name} has none)", "Use dirichlet-pairs.")
        return [(data.site_names[value], indices) for value, indices in partition.by_site(data.site)]
    if settings.partition == "iid":
        shares = partition.iid(data.group, clients=settings.clients, rng=rng)
    elif settings.partition == "dirichlet":
        shares = partition.dirichlet(
            data.y,
            data.group,
            clients=settings.clients,
            alpha=settings.alpha,
            rng=rng,
            min_samples=settings.min_samples,
            has_enough=lambda number, indices: splits.is_enough(
                tuple(_parts_of(settings, data, _numbered(settings, number), indices, seed).values()),
                min_train=settings.min_samples,
            ),
        )
    else:
        shares = partition.dirichlet_pairs(data.y, data.group, clients=settings.clients, alpha=settings.alpha, rng=rng)
    return [(_numbered(settings, number), indices) for number, indices in enumerate(shares)]


def _numbered(settings: CohortSettings, number: int) -> str:
    """Return the name of a client that the data have no name for; names sort as they count."""
    return f"c{number + 1:0{len(str(settings.clients))}d}"


def _parts_of(
    settings: CohortSettings, data: Dataset, name: str, indices: IndexArray, seed: int
) -> dict[str, IndexArray]:
    """Divide one client's samples into its splits, the same for every algorithm."""
    sides = _split(settings, data, indices, generator(seed, purpose="split", participant=name))
    parts = dict(zip(SPLIT_NAMES[len(settings.fractions)], sides, strict=True))
    if not settings.validation or "validation" in parts:
        return parts
    groups = np.arange(len(data.y), dtype=np.int64) if settings.overlapping_windows else data.group
    spans = None if settings.overlapping_windows else data.span
    rng = generator(seed, purpose="validation", participant=name)
    train, held = splits.cut_validation(parts["train"], data.y, groups, spans, share=settings.validation, rng=rng)
    return {"train": train, "validation": held, "test": parts["test"]} if len(held) else parts


def _split(
    settings: CohortSettings, data: Dataset, indices: IndexArray, rng: np.random.Generator
) -> tuple[IndexArray, ...]:
    labels = data.y[indices]
    if settings.overlapping_windows:
        sides = splits.split_overlapping(labels, fractions=settings.fractions, rng=rng)
    else:
        spans = None if data.span is None else data.span[indices]
        sides = splits.split_client(labels, data.group[indices], spans, fractions=settings.fractions, rng=rng)
    return tuple(indices[side] for side in sides)
