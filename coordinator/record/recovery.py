"""Repair a run's folder that is damaged, incomplete or older than the federation: examine, show the steps, perform
them.

Every file taken out of use is kept in the folder's `damaged`. Missing reports come from a backup or from the members,
which keep their latest update and measure statistics again. Every step is shown to the operator before it is performed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coordinator.decisions.actions import BlobRef
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.rules import Rules
from coordinator.decisions.work import needed_blobs
from coordinator.record.blobs import fault_of, force
from coordinator.record.folder_check import NOT_HELD, BlobFault, blob_faults, listed_reports, mark_refetch
from coordinator.record.journal import HEAD, JOURNAL, Draft, Entry, SqliteJournal, fact_of
from coordinator.record.journal_check import ACCEPTS_OLDER, OBSTACLE, RECOVERED, JournalState, read_journal
from coordinator.record.store import set_aside
from fedap_core.errors import InvalidInput

MakeRules = Callable[[str], Rules]
"""Builds the rules of a run from its configuration, stored in the journal as JSON."""


@dataclass(kw_only=True)
class Recovery:
    """The faults found, the steps to repair them, and what the operator must agree to first (asks; empty: nothing)."""

    folder: Path
    found: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    asks: str = ""
    expects: str = "--accept-older or a newer backup"
    _do: list[Callable[[], object]] = field(default_factory=list)

    def plan(self, step: str, do: Callable[[], object]) -> None:
        self.steps.append(step)
        self._do.append(do)

    def carry_out(self) -> None:
        """Perform the steps in order. If interrupted at any point, recovery can be started again."""
        for do in self._do:
            do()

    def lines(self) -> Iterator[str]:
        """Yield faults and steps as lines for people."""
        yield from (f"found: {one}" for one in self.found or ["nothing damaged or missing"])
        yield from (f"will: {one}" for one in self.steps or ["change nothing"])


def recovery_of(folder: Path, *, accept_older: bool, backup: Path | None, make_rules: MakeRules) -> Recovery:
    """Examine the folder of a run that no process is running."""
    recovery = Recovery(folder=folder)
    journal = _unfinished(recovery) or read_journal(folder)
    if obstacle := dict(journal.facts).get(OBSTACLE):
        recovery.found.append(obstacle)
        recovery.expects, recovery.asks = "the newer folder, or a backup of it", f"{obstacle}. Put that in its place."
        return recovery
    if journal.wrong:
        journal = _mend_journal(recovery, journal, backup, accept_older=accept_older)
    if (faults := _faults(folder, journal, make_rules)) and not recovery.asks:
        not_held = frozenset() if accept_older else listed_reports(dict(journal.facts).get(NOT_HELD))
        _mend_blobs(recovery, faults, backup, not_held=not_held)
    if accept_older:
        step = "ask every member for its state when it connects, and continue from their latest round"
        recovery.plan(step, lambda: _with_journal(folder, lambda one: one.set_metadata(ACCEPTS_OLDER, "yes")))
    return recovery


def _mend_journal(
    recovery: Recovery, journal: JournalState, backup: Path | None, *, accept_older: bool
) -> JournalState:
    """Plan a journal of the intact entries, here or in the backup, whichever has more; return the chosen journal."""
    folder = recovery.folder
    recovery.found.append(f"{journal.path} {journal.wrong}; {len(journal.sound)} entries are intact")
    chosen = journal
    if backup is not None:
        kept = read_journal(backup)
        if kept.wrong or not kept.sound:
            raise InvalidInput("backup", str(backup), "a folder that `fedap-coordinator backup` made", kept.wrong)
        if len(kept.sound) > len(journal.sound):
            chosen = kept
            recovery.found.append(f"{kept.path} has {len(kept.sound)} entries and is intact")
    lost = max(journal.last - len(chosen.sound), 0)
    if (lost or not journal.exists or not chosen.sound) and not accept_older:
        known = f"{lost} entries" if lost else "its entries"
        recovery.asks = (
            f"{known} of the journal are lost. Restore a newer backup, or use --accept-older to continue from the "
            "members' state: no round is trained twice, and members that are behind join in the next round."
        )
    step = f"write a journal of the {len(chosen.sound)} intact entries, and move the old one to damaged/"
    facts = dict(chosen.facts) or dict(journal.facts)
    recovery.plan(step, lambda: _write_journal(folder, chosen.sound, facts))
    return chosen


def _unfinished(recovery: Recovery) -> JournalState | None:
    """Plan to finish a recovery that was killed after it had written a complete journal; return that journal."""
    made = recovery.folder / RECOVERED
    if not (made / JOURNAL).is_file():
        return None
    recovery.found.append(f"a recovery was interrupted; the journal that it wrote to {made} is complete")
    recovery.plan("put that journal in its place, and move the old one to damaged/", lambda: _put_in_place(made))
    return read_journal(made)


def _write_journal(folder: Path, entries: Sequence[Entry], facts: dict[str, str]) -> None:
    """Write the journal to a temporary folder, then put it in its place."""
    part, made = folder / f"{RECOVERED}.part", folder / RECOVERED
    for leftover in (part, made):
        shutil.rmtree(leftover, ignore_errors=True)
    part.mkdir(mode=0o700)
    journal = SqliteJournal(part / JOURNAL)
    drafts = [Draft(time_s=one.time_s, kind=one.kind, body=one.body) for one in entries]
    if drafts:
        journal.append(drafts)
    for name, value in facts.items():
        if name != "format":
            journal.set_metadata(name, value)
    journal.close()
    part.rename(made)  # from here on it is found complete, whatever happens
    force(folder)
    _put_in_place(made)


def _put_in_place(made: Path) -> None:
    """Replace a folder's journal by the one in its subfolder `made`, which is last to move and ends the recovery."""
    folder = made.parent
    old = [JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", *([HEAD] if (made / HEAD).exists() else [])]
    for name in old:
        set_aside(folder, folder / name)
    for name in (HEAD, JOURNAL):
        if (made / name).exists():
            (made / name).rename(folder / name)
    force(folder)
    shutil.rmtree(made, ignore_errors=True)


def _faults(folder: Path, journal: JournalState, make_rules: MakeRules) -> list[BlobFault]:
    """Return the faults of the reports that the intact entries still need."""
    stored = dict(journal.facts).get("config")
    if not journal.sound or stored is None:
        return []
    machine = RoundMachine(make_rules(stored))
    for entry in journal.sound:
        machine.replay(fact_of(entry), entry.time_s)
    return blob_faults(folder, needed_blobs(machine.state))


def _mend_blobs(
    recovery: Recovery, faults: Sequence[BlobFault], backup: Path | None, *, not_held: Collection[BlobRef]
) -> None:
    """Plan the repair of damaged reports. not_held: reports that their members no longer hold."""
    folder = recovery.folder
    asked = []
    for fault in faults:
        recovery.found.append(f"{fault.path} {fault.wrong}")
        kept = None if backup is None else backup / fault.path.relative_to(folder)
        if fault.path.exists():
            recovery.plan(f"move {fault.path} to damaged/", partial(set_aside, folder, fault.path))
        if kept is not None and not fault_of(kept):
            step = f"restore {fault.path.relative_to(folder)} from {backup}"
            recovery.plan(step, partial(_copy, kept, fault.path, folder / f"{RECOVERED}.report"))
        else:
            asked.append(fault)
    if useless := [one for one in asked if one.ref in not_held]:
        name, path = useless[0].ref.member, useless[0].path
        recovery.asks = (
            f"{path} is lost, {name} no longer holds it, and another member needs it. Restore it from a "
            "backup with --from, or use --accept-older to continue from the members' state: members that are "
            "behind join in the next round."
        )
    elif asked:
        names = ", ".join(sorted({one.ref.member for one in asked}))
        what = "to send their last update again, or to measure again if statistics are lost"
        step = f"ask {names} {what}, when `serve` resumes the run"
        recovery.plan(step, lambda: _with_journal(folder, lambda one: mark_refetch(one, [f.ref for f in asked])))


def _copy(source: Path, path: Path, part: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, part)
    force(part)
    part.rename(path)


def _with_journal(folder: Path, do: Callable[[SqliteJournal], object]) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    try:
        do(journal)
    finally:
        journal.close()
