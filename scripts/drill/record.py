"""Writes one JSON line per drill, so that an interrupted series resumes where it was.

Knows the format of records on disk; `judge` decides what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedap_core.errors import InvalidInput
from scripts.drill.faults import Fault, to_json
from scripts.drill.judge import DrillOutcome, DrillVerdict
from scripts.drill.spec import Drill

FILE = "drills.jsonl"


@dataclass(frozen=True, kw_only=True)
class DrillRecord:
    """One drill that was played. folder: where its logs are, if it failed."""

    drill: Drill
    survived: bool
    complaints: tuple[str, ...]
    seconds: float
    struck: int
    memory_growth_bytes: int
    log_bytes: int
    files: int
    folder: str | None = None
    faults: tuple[Mapping[str, Any], ...] = ()
    notes: Mapping[str, Any] | None = None
    """Further figures of kinds that have them."""


def record_of(
    drill: Drill, faults: tuple[Fault, ...], outcome: DrillOutcome, verdict: DrillVerdict, *, folder: Path | None
) -> DrillRecord:
    return DrillRecord(
        drill=drill,
        survived=verdict.survived,
        complaints=verdict.complaints,
        seconds=round(outcome.seconds, 2),
        struck=outcome.struck,
        memory_growth_bytes=verdict.memory_growth_bytes,
        log_bytes=verdict.log_bytes,
        files=max(outcome.files.values(), default=0),
        folder=None if folder is None else str(folder),
        faults=tuple(to_json(fault) for fault in faults),
        notes=dict(outcome.notes) or None,
    )


def failed_record(drill: Drill, reason: str) -> DrillRecord:
    """Return the record of a drill that could not be played."""
    return DrillRecord(
        drill=drill,
        survived=False,
        complaints=(reason,),
        seconds=0.0,
        struck=0,
        memory_growth_bytes=0,
        log_bytes=0,
        files=0,
    )


def encode(record: DrillRecord) -> str:
    return json.dumps(asdict(record))


def decode(text: str) -> DrillRecord:
    fields = json.loads(text)
    fields["drill"] = Drill(**fields["drill"])
    for name in ("complaints", "faults"):
        fields[name] = tuple(fields[name])
    return DrillRecord(**fields)


def read_records(path: Path) -> Iterator[DrillRecord]:
    """Yield the records of earlier calls; an incomplete last line is ignored."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1]):
        try:
            yield decode(line)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(
                "out", f"{path}, line {number + 1}", "a record of `fedap-lab drill`", str(error)
            ) from error


def append(path: Path, record: DrillRecord) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(encode(record) + "\n")


def outcome_to_json(outcome: DrillOutcome) -> dict[str, Any]:
    return asdict(outcome)


def outcome_from_json(fields: dict[str, Any]) -> DrillOutcome:
    return DrillOutcome(**{**fields, "faults": tuple(fields["faults"])})
