"""Make a consistent copy of a run's folder during the run: the journal at one moment, and the files it refers to.

The journal is copied first, with SQLite's backup; right after it all reports, and checked only then, because a short
round may be over before the journal has been read. If a report that the copied journal names was deleted meanwhile,
everything is copied again. Files that can be computed again (rows, encoded
models) are left out. To restore a backup, put it in the place of the folder.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from coordinator.decisions.rules import Rules
from coordinator.decisions.state import State
from coordinator.decisions.work import needed_blobs
from coordinator.record.blobs import force
from coordinator.record.folder_check import BLOBS, blob_faults, blob_path, replayed
from coordinator.record.journal import JOURNAL, SqliteJournal
from coordinator.record.journal_check import read_journal
from coordinator.record.traffic import TRAFFIC
from fedap_core.errors import InvalidInput

_TRIES = 20
"""Each try takes as long as copying; for a run that opens rounds faster than that, a consistent copy is luck."""

_ADVICE = (
    "Either its rounds take less time than copying, and it can be copied when it has stopped, or a file is damaged: "
    "`fedap-coordinator recover` prints which."
)

_BESIDE = ("run.toml", TRAFFIC, "tables")
"""Results and tables of scores, copied if they exist."""


def back_up(folder: Path, out: Path, rules: Rules) -> str:
    """Copy a run's folder to a new one and check the copy; return a sentence about it. The copy gets its name once it
    is complete and durable: whatever interrupts this leaves nothing under that name."""
    if out.exists():
        raise InvalidInput("out", str(out), "a folder that does not exist yet", "Name another one.")
    part = out.with_name(f".{out.name}.part")
    try:
        state = _copy(folder, part, rules)
        part.rename(out)
        force(out.parent)
    except (OSError, sqlite3.Error) as error:  # a full disk, a folder of somebody else
        shutil.rmtree(part, ignore_errors=True)
        raise InvalidInput("out", str(out), "a folder that can be written", f"{error}. There is no backup.") from error
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    where = f"round {state.round_no + 1} of {rules.rounds}, {state.stage}"
    how = f"To restore it, move {folder} away and copy this one in its place"
    return f"{out}: run {rules.run} in {where}; {size:,} bytes, checked. {how}."


def _copy(folder: Path, part: Path, rules: Rules) -> State:
    """Make a complete and durable copy under a temporary name; return the state of its run."""
    shutil.rmtree(part, ignore_errors=True)
    for _ in range(_TRIES):
        part.mkdir(parents=True, mode=0o700)
        _copy_journal(folder, part)
        _copy_blobs(folder, part)
        if _is_complete(folder, part, rules):
            break
        shutil.rmtree(part)
    else:
        raise InvalidInput("folder", str(folder), f"files that can be copied; {_TRIES} attempts failed", _ADVICE)
    for name in _BESIDE:
        source = folder / name
        if source.is_dir():
            shutil.copytree(source, part / name)
        elif source.is_file():
            shutil.copyfile(source, part / name)
    state, _ = replayed(part, rules)
    for path in (part, *part.rglob("*")):
        force(path)
    return state


def _copy_journal(folder: Path, part: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    try:
        journal.copy_to(part / JOURNAL)
    finally:
        journal.close()


def _copy_blobs(folder: Path, part: Path) -> None:
    """Copy all files of reports that exist at this moment; some may be deleted while this goes on."""
    for source in (folder / BLOBS).rglob("*"):
        target = part / source.relative_to(folder)
        with contextlib.suppress(FileNotFoundError):
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


def _is_complete(folder: Path, part: Path, rules: Rules) -> bool:
    """Whether the copy has every file that its journal names, intact; delete those that it does not name."""
    if wrong := read_journal(part).wrong:
        raise InvalidInput(str(folder / JOURNAL), f"a file that {wrong}", "an intact journal")
    state, marked = replayed(part, rules)
    needed = needed_blobs(state) - marked
    named = {blob_path(part, ref) for ref in needed}
    for path in [path for path in (part / BLOBS).rglob("*") if path.is_file() and path not in named]:
        path.unlink()
    return not blob_faults(part, needed)
