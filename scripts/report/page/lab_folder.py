"""Reads a run folder of the lab: settings.json, rounds.jsonl, mixing.json. Takes what is there; old folders have less.

Settings are taken as written, so that a report needs neither the data nor the code of the algorithm it tells about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from scripts.report.page.computed_bytes import computed_bytes
from scripts.report.page.damage import intact
from scripts.report.page.runs import ClientScore, MixingRecord, RoundRecord, Run

SETTINGS = "settings.json"
Json = dict[str, Any]


def read_lab_run(folder: Path) -> Run:
    """The run in this folder, with as many rounds as are written."""
    described = _json(folder / SETTINGS)
    rounds = tuple(sorted(_rounds(folder / "rounds.jsonl"), key=lambda record: record.number))
    mixing = _mixing(folder / "mixing.json")
    with intact(folder / SETTINGS):
        run = _described_run(described, folder)
    counted = any(record.up or record.down for record in rounds)
    computed = None if counted else computed_bytes(described["settings"], run.classes, folder)
    with intact(folder):  # each file is sound, but do they fit together?
        return replace(run, rounds=rounds, mixing=mixing, computed=computed)


def _described_run(described: Json, folder: Path) -> Run:
    """What the settings alone tell: a run without rounds."""
    settings, cohort = described["settings"], described["cohort"]
    counts = cohort.get("class_counts")
    return Run(
        source=folder.name,
        algorithm=str(settings["algorithm"]),
        options={key: str(value) for key, value in settings.get("options", {}).items()},
        seed=int(settings["seed"]),
        asked=int(settings["rounds"]),
        clients=tuple(map(str, cohort["clients"])),
        rounds=(),
        classes=tuple(map(str, cohort.get("classes", ()))),
        class_counts=None if counts is None else tuple(tuple(map(int, row)) for row in counts),
        settings=dict(_flat(settings)),
        versions={key: str(value) for key, value in described.get("versions", {}).items()},
    )


def _json(path: Path) -> Json:
    with intact(path):
        found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


def _rounds(path: Path) -> Iterator[RoundRecord]:
    if not path.exists():
        return
    with intact(path):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if line.endswith("\n"):  # a torn last line was never a result
            with intact(path, line=number):
                record = _round(json.loads(line))
            yield record


def _round(record: Json) -> RoundRecord:
    counted = record.get("bytes") or {}
    return RoundRecord(
        number=int(record["round"]),
        scores=_scores(record.get("test")),
        validation=_mean(record.get("validation")),
        seconds={key: float(value) for key, value in (record.get("seconds") or {}).items()},
        up=tuple(map(int, counted.get("up", ()))),
        down=tuple(map(int, counted.get("down", ()))),
    )


def _mean(split: Json | None) -> float | None:
    return fmean(split["accuracy"]) if split else None


def _scores(split: Json | None) -> tuple[ClientScore | None, ...]:
    if not split:
        return ()
    confusions = split.get("confusion") or [None] * len(split["accuracy"])
    return tuple(
        ClientScore(
            correct=round(accuracy * samples),
            samples=samples,
            confusion=None if confusion is None else tuple(tuple(map(int, row)) for row in confusion),
        )
        for accuracy, samples, confusion in zip(split["accuracy"], split["samples"], confusions, strict=True)
    )


def _mixing(path: Path) -> MixingRecord | None:
    if not path.exists():
        return None
    described = _json(path)
    with intact(path):
        distances = described.get("distances")
        return MixingRecord(
            weights=np.array(described["weights"], dtype=np.float64),
            layers=tuple(map(str, described.get("layers") or ())),
            distances=None if distances is None else np.array(distances, dtype=np.float64),
            from_round=int(described.get("from_round", 0)),
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
