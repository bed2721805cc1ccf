"""Check that a journal is readable to its end, unchanged since it was written, and not older than its folder.

Read-only, and safe while the journal is in use. Reports faults in words for the operator, and how far the journal can
be read. What to do about them is decided elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from coordinator.record.journal import FORMAT, HEAD, JOURNAL, Entry, chained, sealed
from coordinator.record.traffic import TRAFFIC

ACCEPTS_OLDER = "accepts older"
"""Name of the metadata by which the operator agrees to continue from what the members hold; empty once done."""

OBSTACLE = "obstacle"
"""Name of the metadata that says why this folder can never be resumed; written when members' reports show it."""

RECOVERED = "recovered"
"""Folder in a run's folder with a journal that `recover` has completed and not yet put in its place."""

FactRow = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """The result of a check. wrong: the fault as a predicate ("is missing"), or empty; sound: unchanged entries, from
    the first up to the first damaged one; last: highest entry number ever written, as far as known; facts: unchanged
    metadata.
    """

    path: Path
    wrong: str = ""
    sound: tuple[Entry, ...] = ()
    last: int = 0
    facts: tuple[FactRow, ...] = ()
    exists: bool = True


def read_journal(folder: Path) -> JournalState:
    """Check the journal in a run's folder, and the files around it."""
    path = folder / JOURNAL
    if not path.is_file():
        wrong = f"is missing, although {trace} is there" if (trace := trace_of_run(folder)) else ""
        return JournalState(path=path, wrong=wrong, last=_head(folder)[0], exists=False)
    sound: list[Entry] = []
    facts: list[FactRow] = []
    wal = path.with_name(f"{path.name}-wal")
    strange = wal.is_file() and wal.stat().st_size > 0 and not _may_have_wal(path)
    try:
        alone = "" if wal.exists() and not strange else "&immutable=1"  # or SQLite creates a -wal file, or applies it
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{alone}", uri=True)) as db:
            wrong = _read_into(db, sound, facts)
    except sqlite3.Error as error:
        wrong = f"cannot be read: {error}"
    wrong = wrong or (f"is a backup, and {wal.name} beside it belongs to another journal" if strange else "")
    return _judged(folder, path, wrong, sound, facts)


def _may_have_wal(path: Path) -> bool:
    """Whether a -wal file can belong to this journal. A backup is a single file, and its header says so (format
    versions 1); a -wal file beside it is what a folder contained into which the backup was copied."""
    with path.open("rb") as file:
        return file.read(20)[18:20] != b"\x01\x01"


def _judged(folder: Path, path: Path, wrong: str, sound: list[Entry], facts: list[FactRow]) -> JournalState:
    serial, chain = _head(folder)
    if not wrong and serial > len(sound):
        wrong = f"ends with entry {len(sound)}, although entry {serial} was written"
    elif not wrong and serial > 0 and _chain_at(sound, serial) != chain:
        wrong = f"is not the one that {HEAD} belongs to: entry {serial} differs"
    elif not wrong and not sound and not dict(facts).get(ACCEPTS_OLDER) and (trace := trace_of_run(folder)):
        wrong = f"is empty, although {trace} is there"
    last = max(serial, len(sound))
    return JournalState(path=path, wrong=wrong, sound=tuple(sound), last=last, facts=tuple(facts))


def _read_into(db: sqlite3.Connection, sound: list[Entry], facts: list[FactRow]) -> str:
    """Collect unchanged metadata and entries, up to the first damaged entry; return the fault, or an empty text."""
    tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        return ""  # just created, nothing written yet
    if "facts" not in tables or "entries" not in tables:
        return "lacks its tables"
    if db.execute("select value from facts where name = 'format'").fetchone() not in (None, (str(FORMAT),)):
        return ""  # another format: opening it refuses that
    wrong = ""
    for name, value, seal in db.execute("select name, value, seal from facts"):
        if sealed(name, value) == seal:
            facts.append((name, value))
        else:
            wrong = f"is damaged: the fact «{name}» has changed since it was written"
    chain = 0
    for serial, time_s, kind, body, written in db.execute(
        "select serial, time_s, kind, body, chain from entries order by serial"
    ):
        entry = Entry(serial=serial, time_s=time_s, kind=kind, body=body)
        chain = chained(chain, entry)
        if serial != len(sound) + 1 or chain != written:
            return f"is damaged: entry {len(sound) + 1} has changed since it was written"
        sound.append(entry)
    found = str(db.execute("pragma quick_check(1)").fetchone()[0])
    return wrong or ("" if found == "ok" else f"is damaged: {found}")


def _chain_at(entries: list[Entry], serial: int) -> int:
    chain = 0
    for entry in entries[:serial]:
        chain = chained(chain, entry)
    return chain


def _head(folder: Path) -> tuple[int, int]:
    """Read the head file; (0, 0) if it is missing or unreadable."""
    try:
        serial, chain = (folder / HEAD).read_text().split()
        return int(serial), int(chain)
    except (OSError, ValueError):
        return 0, 0


def trace_of_run(folder: Path) -> str:
    """Return the name of a file that only a started run leaves in a folder; empty if there is none."""
    return next(_traces(folder), "")


def _traces(folder: Path) -> Iterator[str]:
    for path in folder.glob("blobs/*/*/*"):
        yield str(path.relative_to(folder))
    for name in (HEAD, TRAFFIC, f"{RECOVERED}/{JOURNAL}"):
        if (folder / name).is_file() and (folder / name).stat().st_size:
            yield name
