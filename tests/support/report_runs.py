"""Run folders as the lab writes them, made by hand, so that a report's figures can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SAMPLES = 100
CLIENTS = ("ward-1", "ward-2", "ward-10")
CLASSES = ("sick", "well")
COHORT: dict[str, Any] = {"data": "hospital", "partition": "site", "alpha": 0.1, "clients": 3, "protocol": "paper"}
WEIGHTS = [[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.25, 0.25, 0.5]]
DISTANCES = [
    [[0.0, 1.0, 3.0], [1.0, 0.0, 3.0], [3.0, 3.0, 0.0]],
    [[0.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 0.0]],
]
"""Two layers: only the first tells ward-10 from the others."""


def write_run(
    root: Path,
    algorithm: str,
    correct: Sequence[Sequence[int]],
    *,
    seed: int = 0,
    clients: Sequence[str] = CLIENTS,
    classes: Sequence[str] = CLASSES,
    rounds: int | None = None,
    options: Mapping[str, str] | None = None,
    cohort: Mapping[str, Any] | None = None,
    wire: tuple[int, int] | None = None,
    weights: Sequence[Sequence[float]] | None = None,
    distances: Sequence[Sequence[Sequence[float]]] | None = None,
    **settings: object,
) -> Path:
    """One run. correct: per round, per client, of SAMPLES; wire: bytes up and down of every client and round."""
    name = "-".join([algorithm, *(options or {}).values(), *map(str, settings.values()), f"s{seed}"])
    folder = root / name
    folder.mkdir(parents=True)
    described = {
        "settings": {
            "cohort": {**COHORT, **(cohort or {})},
            "model": "lenet5",
            "algorithm": algorithm,
            "options": dict(options or {}),
            "rounds": len(correct) if rounds is None else rounds,
            "seed": seed,
            **settings,
        },
        "versions": {"fedap": "0.1.0"},
        "cohort": {
            "clients": list(clients),
            "classes": list(classes),
            "class_counts": [[10 * (at + 1), 190] for at in range(len(clients))],
        },
    }
    (folder / "settings.json").write_text(json.dumps(described))
    lines = [
        json.dumps(_round(number, row, wire, last=number + 1 == len(correct))) for number, row in enumerate(correct)
    ]
    (folder / "rounds.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if weights is not None:
        mixing = {
            "members": list(clients),
            "from_round": 0,
            "weights": weights,
            "layers": [f"bn{at + 1}" for at in range(len(distances or ()))],
            "distances": distances,
        }
        (folder / "mixing.json").write_text(json.dumps(mixing))
    return folder


def _round(number: int, correct: Sequence[int], wire: tuple[int, int] | None, *, last: bool) -> dict[str, Any]:
    test: dict[str, Any] = {
        "accuracy": [one / SAMPLES for one in correct],
        "samples": [SAMPLES] * len(correct),
    }
    if last:  # of the sick all are found; who is wrong is a well one taken for sick
        test["confusion"] = [[[10, 0], [SAMPLES - one, one - 10]] for one in correct]
    record: dict[str, Any] = {"round": number, "test": test, "seconds": {"train": 1.0, "mix": 0.5}}
    if wire is not None:
        record["bytes"] = {"up": [wire[0]] * len(correct), "down": [wire[1]] * len(correct)}
    return record


def write_comparison(root: Path, **changes: Any) -> Path:  # noqa: ANN401
    """Base, FedAvg and FedAP on three wards: one gains surely, one perhaps, one loses surely; returns the folder."""
    write_run(root, "base", [[40, 60, 80], [60, 80, 90]], **changes)
    write_run(root, "fedavg", [[50, 50, 50], [70, 70, 70]], wire=(1_000, 2_000), **changes)
    fedap = {"weights": WEIGHTS, "distances": DISTANCES, **changes}
    write_run(root, "fedap", [[50, 70, 70], [90, 83, 70]], wire=(1_000, 2_000), **fedap)
    return root
