"""Check a run's folder: its journal, the reports that the journal still needs, its initial models.

The check is read-only: if it finds a fault, the command stops before anything is written, names the fault in one
sentence, and leaves the repair to the operator (`recovery`). Reports that the operator agreed to fetch again may be
missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordinator.decisions.actions import BlobRef
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import State
from coordinator.decisions.work import needed_blobs
from coordinator.record.blobs import fault_of
from coordinator.record.journal import JOURNAL, Journal, SqliteJournal, replay
from coordinator.record.journal_check import read_journal
from fedap_core.errors import InvalidInput

BLOBS = "blobs"
"""Folder of the reports that are kept."""

REFETCH = "refetch"
"""Name of the metadata that lists reports to fetch from their members again."""

NOT_HELD = "not held"
"""Name of the metadata that lists requested reports which their members no longer hold."""

_ADVICE = "Nothing was changed. `fedap-coordinator recover {}` prints how to resume it"


@dataclass(frozen=True, kw_only=True)
class BlobFault:
    """A report whose file cannot be used. wrong: the fault as a predicate, such as "is missing"."""

    ref: BlobRef
    path: Path
    wrong: str


class DamagedFolder(InvalidInput):
    """A file of the run is missing or damaged."""

    def __init__(self, folder: Path, path: Path, wrong: str, more: str = "") -> None:
        advice = _ADVICE.format(folder)
        super().__init__(str(path), f"a file that {wrong}", "the file as this run wrote it", f"{advice}{more}.")


def require_sound(folder: Path, rules: Rules, models: Mapping[str, Path | None]) -> tuple[BlobRef, ...]:
    """Refuse a folder in which something is damaged, missing or older than the rest.

    Returns the missing reports that the operator agreed to fetch again."""
    journal = read_journal(folder)
    if journal.wrong:
        raise DamagedFolder(folder, journal.path, journal.wrong)
    _require_same_models(dict(journal.facts), models)
    if not journal.sound:
        return ()
    state, agreed = replayed(folder, rules)
    faults = blob_faults(folder, needed_blobs(state))
    unknown = [one for one in faults if one.ref not in agreed or one.path.exists()]
    if unknown:
        first, others = unknown[0], len(unknown) - 1
        more = f"; {others} more of its files are damaged" if others else ""
        raise DamagedFolder(folder, first.path, first.wrong, more)
    return tuple(one.ref for one in faults)


def replayed(folder: Path, rules: Rules) -> tuple[State, frozenset[BlobRef]]:
    """Return the state that a sound journal leads to, and the reports that may be fetched again."""
    machine = RoundMachine(rules)
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    try:
        replay(machine, journal)
        return machine.state, to_refetch(journal)
    finally:
        journal.close()


def blob_path(folder: Path, ref: BlobRef) -> Path:
    """Return where a stored report is kept in a run's folder."""
    return folder / BLOBS / ref.kind / f"{ref.round_no:07d}" / ref.member


def blob_faults(folder: Path, refs: Collection[BlobRef]) -> list[BlobFault]:
    """Return the faults of these reports' files, in a fixed order."""
    faults = []
    for ref in sorted(refs, key=lambda one: (one.kind, one.round_no, one.member)):
        path = blob_path(folder, ref)
        if wrong := fault_of(path):
            faults.append(BlobFault(ref=ref, path=path, wrong=wrong))
    return faults


def to_refetch(journal: Journal) -> frozenset[BlobRef]:
    """Return the reports that the operator or an earlier process marked to be fetched again."""
    return listed_reports(journal.metadata(REFETCH))


def mark_refetch(journal: Journal, refs: Collection[BlobRef]) -> None:
    """Add these reports to those that may be missing and are fetched from their members again."""
    _mark(journal, REFETCH, refs)


def mark_not_held(journal: Journal, refs: Collection[BlobRef]) -> None:
    """Add these reports to those that their members no longer hold."""
    _mark(journal, NOT_HELD, refs)


def listed_reports(text: str | None) -> frozenset[BlobRef]:
    """Parse a list of reports from metadata."""
    listed = json.loads(text or "[]")
    return frozenset(BlobRef(member=member, kind=kind, round_no=round_no) for member, kind, round_no in listed)


def _mark(journal: Journal, name: str, refs: Collection[BlobRef]) -> None:
    marked = listed_reports(journal.metadata(name)) | frozenset(refs)
    journal.set_metadata(name, json.dumps(sorted([one.member, one.kind, one.round_no] for one in marked)))


def digest_of(path: Path | None) -> str:
    """Return the digest of a model file; empty for none."""
    if path is None:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def note_models(journal: Journal, models: Mapping[str, Path | None]) -> None:
    """Record the digests of the models that a run starts from, unless recorded before."""
    for name, path in models.items():
        if journal.metadata(f"digest of {name}") is None:
            journal.set_metadata(f"digest of {name}", digest_of(path))


def _require_same_models(facts: Mapping[str, str], models: Mapping[str, Path | None]) -> None:
    for name, path in models.items():
        before = facts.get(f"digest of {name}")
        if before is not None and digest_of(path) != before:
            fix = "Nothing was changed. Restore the file as it was, or use another folder for another run."
            raise InvalidInput(f"{name} model", str(path), "the values that this run began with", fix)
