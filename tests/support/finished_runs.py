"""Run folders that look finished: what a sweep would have left behind, with accuracies that a test chose.

A command that finds them trains nothing, so what it makes of the numbers can be tested in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.run.records import ClientScore, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

SAMPLES = 1_000_000
"""So many test samples that any accuracy of a test is a share of them."""

Accuracy = Callable[[RunSettings, int, int], float]
"""(run, round, client number) -> accuracy as a share of 1."""


def finish(root: Path, runs: Iterable[RunSettings], accuracy: Accuracy) -> None:
    """Write the folder of every run, all rounds evaluated as its settings ask."""
    for run in runs:
        folder = RunFolder(root, run).path
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"c{number + 1:02d}" for number in range(run.cohort.clients)]
        described = {
            "settings": run.model_dump(mode="json"),
            "versions": {"torch": "1.2.3"},
            "cohort": {"clients": names, "classes": ["a", "b"], "class_counts": [[1, 1] for _ in names]},
            "keep_models": False,
        }
        (folder / "settings.json").write_text(json.dumps(described), encoding="utf-8")
        (folder / "rounds.jsonl").write_text("".join(_line(run, at, accuracy) for at in range(run.rounds)), "utf-8")


def _line(run: RunSettings, round_no: int, accuracy: Accuracy) -> str:
    clients = range(run.cohort.clients) if run.evaluates(round_no) else ()
    scores = tuple(
        ClientScore(correct=round(SAMPLES * accuracy(run, round_no, client)), samples=SAMPLES) for client in clients
    )
    splits = {"test": scores} if scores else {}
    return RoundRecord(number=round_no, phase="mixed", train_loss=(1.0,) * run.cohort.clients, splits=splits).line()
