"""Scores of a sealed run as a table, for a member: boxes in a copy of the coordinator's folder, opened with the key.

The plan that boxes are bound to is the one that this member agreed to, in its own state folder. Reads files of the
coordinator's form (wire bytes, then a footer) and trusts nothing in them: what cannot be opened is refused.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import struct
from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.sealing.boxes import Boxes
from participant.sealing.group_key import read_group_key
from participant.sealing.sealed_run import SCORES
from participant.sealing.updates import BrokenSeal

_FOOTER = struct.Struct("<I8s")
_COLUMNS = ("participant", "round", "model", "split", "samples", "correct", "loss", "macro_f1")


def scores_table(folder: Path, state: Path, key_file: Path) -> str:
    """Every score that members sent, as CSV. folder: the coordinator's, or a copy of it. state: this participant's."""
    current = state / "state" / "current"
    if not current.is_file():
        raise InvalidInput("state", str(state), "the state folder of a participant that has joined the run")
    run = current.read_text(encoding="utf-8").strip()
    terms = json.loads((state / "state" / run / "agreement.json").read_text(encoding="utf-8"))
    digest = hashlib.blake2b(json.dumps(terms["plan"], sort_keys=True).encode(), digest_size=16).hexdigest()
    boxes = Boxes(key=read_group_key(key_file), run=run, plan=digest)
    files = sorted((folder / "tables").glob("*/*"))
    if not files:
        raise InvalidInput("folder", str(folder), "a folder of a run with sealed scores: tables/ROUND/MEMBER")
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, extrasaction="ignore")
    table.writeheader()
    for path in files:
        try:
            contents = boxes.open(_box(path), purpose=SCORES, member=path.name)
        except BrokenSeal as error:
            raise InvalidInput(str(path), str(error), f"scores of run {run}, sealed under this key") from error
        for score in contents.facts["scores"]:
            table.writerow({"participant": path.name, "round": contents.round_no, **score})
    return text.getvalue()


def _box(path: Path) -> bytes:
    data = path.read_bytes()
    length, _ = _FOOTER.unpack(data[-_FOOTER.size :]) if len(data) >= _FOOTER.size else (0, b"")
    return data[: max(len(data) - _FOOTER.size - length, 0)]
