"""Configurations, for coordinators and participants alike, under which the network computes what an inline run did.

Impatient by default: heartbeats every half second, so that a test of a broken line does not wait a minute for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from coordinator.decisions.facts import Fact
from coordinator.record.journal import facts_in
from participant.record.model_file import read_model
from tests.support.players import Reference
from tests.support.processes import config_file

PACE = {"heartbeat_s": 0.5, "dead_after_s": 5.0, "linger_s": 30.0}
PATIENCE = {
    "reconnect_s": 0.1,
    "reconnect_cap_s": 1.0,
    "answer_s": 1.0,
    "silence_beats": 6.0,
    "farewell_s": 10.0,
    "validation": 0.0,
    "also_local": False,
}


def coordinator_file(
    folder: Path,
    reference: Reference,
    *,
    pace: Mapping[str, object] | None = None,
    members: Mapping[str, object] | None = None,
    network: Mapping[str, object] | None = None,
    **top: object,
) -> Path:
    """A run.toml; the sections given are laid over the usual ones."""
    settings = reference.settings
    return config_file(
        folder / "run.toml",
        {
            "run": "whole",
            "folder": str(folder / "run"),
            "initial": str(reference.initial),
            "rounds": settings.rounds,
            "seed": settings.seed,
            "split": settings.cohort.protocol,
            "validation": settings.cohort.validation,
            "start_from": settings.start_from,
            **top,
            "algorithm": {
                "name": settings.algorithm,
                "robust": str(settings.options.get("robust", "none")),
                "min_similarity": 0.0,
            },
            "anchor": _anchor(reference),
            "training": {name: value for name, value in settings.sgd.write([]).items() if value is not None},
            "members": {"names": reference.names, **(members or {})},
            "pace": {**PACE, **(pace or {})},
            "network": {"endpoint": "tcp://127.0.0.1:*", **(network or {})},
        },
    )


def _anchor(reference: Reference) -> dict[str, object]:
    if reference.anchor is not None:
        return {"file": str(reference.anchor)}
    warmup = reference.settings.warm_up_rounds
    return {"warmup_rounds": warmup} if warmup else {}


def participant_file(folder: Path, **patience: float) -> Path:
    """What a participant is told about waiting."""
    return config_file(folder / "participant.toml", {**PATIENCE, **patience})


def only(reference: Reference, names: Sequence[str]) -> Reference:
    """The same run with some of its clients, for players that are started apart."""
    clients = tuple(client for client in reference.cohort.clients if client.name in names)
    return replace(reference, cohort=replace(reference.cohort, clients=clients))


def told_facts(folder: Path) -> list[Fact]:
    """Every fact of a run's journal, in order."""
    return [fact for fact, _ in facts_in(folder)]


def has_finite_model(path: Path) -> bool:
    """Whether a model file is there and every value in it is a number."""
    return path.is_file() and all(bool(torch.isfinite(tensor).all()) for tensor in read_model(path)[1].values())
