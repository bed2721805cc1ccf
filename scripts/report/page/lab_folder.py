"""Reads a run folder of the lab: settings.json, rounds.jsonl, mixing.json. Missing parts are allowed (older folders).

Settings are used as written, so a report needs neither the data nor the code of the algorithm.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.report.traffic import computed_bytes
from scripts.run.damage import intact
from scripts.run.mixing_record import read_mixing_record
from scripts.run.records import Json, Run, read_rounds

SETTINGS = "settings.json"


def read_lab_run(folder: Path) -> Run:
    """Read the run in this folder, with the rounds written so far."""
    described = _json(folder / SETTINGS)
    rounds = tuple(sorted(read_rounds(folder / "rounds.jsonl"), key=lambda record: record.number))
    mixing = read_mixing_record(folder / "mixing.json")
    with intact(folder / SETTINGS):
        run = _described_run(described, folder)
    counted = any(record.up or record.down for record in rounds)
    computed = None if counted else computed_bytes(described["settings"], run.classes, folder)
    with intact(folder):  # each file is intact, but they may not fit together
        return replace(run, rounds=rounds, mixing=mixing, computed=computed)


def _described_run(described: Json, folder: Path) -> Run:
    """Build a run without rounds from the settings alone."""
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


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
