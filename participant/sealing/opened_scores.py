"""Open the scores of a sealed run for a member: boxes in a copy of the coordinator's folder, opened with the group key.

Boxes are bound to the plan that this member agreed to, which is read from its own state folder. Reads the coordinator's
file format (wire bytes, then a footer) and trusts nothing in it: a box that cannot be opened is refused.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.record.agreement import read_terms
from participant.sealing.boxes import Boxes, Contents, plan_digest
from participant.sealing.group_key import read_group_key
from participant.sealing.sealed_run import SCORES
from participant.sealing.updates import BrokenSeal

_FOOTER = struct.Struct("<I8s")
_COLUMNS = ("participant", "round", "model", "split", "samples", "correct", "loss", "macro_f1")


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What a member needs to open scores. state: its own state folder, which holds the plan."""

    state: Path
    key_file: Path

    def opened(self, folder: Path) -> Mapping[tuple[int, str], Contents]:
        """Like `opened_scores`, but reads a folder only once."""
        return _cached(folder, self.state, self.key_file)


def scores_table(folder: Path, state: Path, key_file: Path) -> str:
    """Return every score that members sent, as CSV."""
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, extrasaction="ignore")
    table.writeheader()
    for (round_no, member), contents in opened_scores(folder, state, key_file).items():
        for score in contents.facts["scores"]:
            table.writerow({"participant": member, "round": round_no, **score})
    return text.getvalue()


def opened_scores(folder: Path, state: Path, key_file: Path) -> dict[tuple[int, str], Contents]:
    """Map (round of the report, member) to the contents of its box. folder: the coordinator's, or a copy of it. state:
    this participant's."""
    run, boxes = _boxes(state, key_file)
    files = sorted((folder / "tables").glob("*/*"))
    if not files:
        raise InvalidInput("folder", str(folder), "a folder of a run with sealed scores: tables/ROUND/MEMBER")
    found = {}
    for path in files:
        try:
            contents = boxes.open(_box(path), purpose=SCORES, member=path.name)
        except BrokenSeal as error:
            raise InvalidInput(str(path), str(error), f"scores of run {run}, sealed under this key") from error
        found[contents.round_no, path.name] = contents
    return found


@cache
def _cached(folder: Path, state: Path, key_file: Path) -> Mapping[tuple[int, str], Contents]:
    return opened_scores(folder, state, key_file)


def _boxes(state: Path, key_file: Path) -> tuple[str, Boxes]:
    """Return the participant's current run, and an opener for its boxes."""
    current = state / "state" / "current"
    run = current.read_text(encoding="utf-8", errors="replace").strip() if current.is_file() else ""
    terms = read_terms(state / "state" / run) if run else None
    plan = None if terms is None else terms["plan"]
    if not isinstance(plan, Mapping):
        raise InvalidInput("state", str(state), "the state folder of a participant that has joined the run")
    return run, Boxes(key=read_group_key(key_file), run=run, plan=plan_digest(plan))


def _box(path: Path) -> bytes:
    data = path.read_bytes()
    length, _ = _FOOTER.unpack(data[-_FOOTER.size :]) if len(data) >= _FOOTER.size else (0, b"")
    return data[: max(len(data) - _FOOTER.size - length, 0)]
