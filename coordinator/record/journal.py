"""The record of a run: events in the order in which they changed its state, each durable before anything follows it.

A journal knows nothing of what an event means: it keeps a number, the run clock's time, a kind and bytes. `Journal` is
the contract; `MemoryJournal` keeps it for as long as the process lives, `SqliteJournal` across any crash. Reading goes
on while another process writes. Every entry carries a checksum over itself and the one before; the last one's stands in
a file beside the journal, so that an older copy or a lost part is noticed (`journal_check`).
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import xxhash

from fedap_core.errors import InvalidInput

JOURNAL = "journal.sqlite"
"""Its name in a run's folder."""

HEAD = "journal.head"
"""Beside it: number and checksum of its last entry, in a text of constant length."""

FORMAT = 3
"""Raised when tables, encodings or the blobs beside them change their meaning; a journal of another format is
refused, never guessed at."""

READABLE = frozenset({"1", "2", str(FORMAT)})
"""Formats whose tables can be read: 1 has other checksums of blobs, 2 knows no instances of processes and has no
checksums of entries."""

_TABLES = """
create table if not exists entries (serial integer primary key, time_s real not null, kind text not null,
                                    body blob not null, chain integer not null) strict;
create table if not exists snapshots (serial integer primary key, body blob not null) strict;
create table if not exists facts (name text primary key, value text not null, seal integer not null) strict;
"""
_SNAPSHOTS_KEPT = 2
"""The latest, and the one before it: enough to look back once, and bounded."""


class NotWritten(OSError):
    """The disk took no more. Nothing of what was to be written is kept; the same may be tried again."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One event to be recorded."""

    time_s: float
    kind: str
    body: bytes


def chained(before: int, draft: Draft | Entry) -> int:
    """The checksum of an entry that follows the one with the checksum `before`; 0 before the first."""
    parts = struct.pack("<Qd", before, draft.time_s), draft.kind.encode(), b"\0", draft.body
    return xxhash.xxh3_64_intdigest(b"".join(parts)) >> 1  # SQLite's numbers have a sign


def sealed(name: str, value: str) -> int:
    """The checksum of a fact about the whole run."""
    return xxhash.xxh3_64_intdigest(f"{name}\0{value}".encode()) >> 1


def head_text(serial: int, chain: int) -> str:
    """What the file beside the journal says."""
    return f"{serial:020d} {chain:020d}\n"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One event as recorded. serial counts from 1 without gaps; time_s is the run clock, which never goes back."""

    serial: int
    time_s: float
    kind: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state after the entry `serial`; replay may begin behind it."""

    serial: int
    body: bytes


class Journal(Protocol):
    """What a coordinator asks of its journal."""

    def append(self, drafts: Sequence[Draft]) -> int:
        """Record events, all of them or none; durable when this returns. Returns the last one's serial. NotWritten if
        the disk refuses."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Entries with a serial above `after`, in order."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a state to begin replay from; entries stay, they are the record. NotWritten if the disk refuses."""

    def latest_snapshot(self) -> Snapshot | None:
        """The newest state kept, or None."""

    def fact(self, name: str) -> str | None:
        """What was written down once about the whole run."""

    def set_fact(self, name: str, value: str) -> None:
        """Write down, or replace, something about the whole run; durable when this returns."""

    def close(self) -> None:
        """Let go of it; nothing is lost by not calling this."""


class MemoryJournal:
    """For tests of what stands above a journal."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._snapshots: list[Snapshot] = []
        self._facts: dict[str, str] = {}

    def append(self, drafts: Sequence[Draft]) -> int:
        for draft in drafts:
            serial = len(self._entries) + 1
            self._entries.append(Entry(serial=serial, time_s=draft.time_s, kind=draft.kind, body=draft.body))
        return len(self._entries)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        yield from self._entries[after:]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._snapshots = [*self._snapshots, snapshot][-_SNAPSHOTS_KEPT:]

    def latest_snapshot(self) -> Snapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    def fact(self, name: str) -> str | None:
        return self._facts.get(name)

    def set_fact(self, name: str, value: str) -> None:
        self._facts[name] = value

    def close(self) -> None:
        pass


class SqliteJournal:
    """One file. WAL, and synchronous=FULL: a commit that returned survives a loss of power, not only of the process."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if read_only and not path.is_file():
            raise InvalidInput("journal", path, "the journal of a run", "Name the run's folder.")
        try:
            if read_only:
                self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            else:
                self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # one after the other
                self._db.execute("pragma journal_mode=wal")
                self._db.execute("pragma synchronous=full")
                self._db.executescript(f"begin immediate; {_TABLES} commit;")  # all of them, or a file with none
            self._check_format(path, read_only)
            self._chain = 0 if read_only else self._last_chain()
        except sqlite3.DatabaseError as error:
            raise InvalidInput("journal", path, "an intact journal", str(error)) from error
        self._head = None if read_only else os.open(path.with_name(HEAD), os.O_WRONLY | os.O_CREAT, 0o600)

    def _last_chain(self) -> int:
        found = self._db.execute("select chain from entries order by serial desc limit 1").fetchone()
        return int(found[0]) if found else 0

    def _check_format(self, path: Path, read_only: bool) -> None:
        found = self.fact("format")
        if found is None and not read_only:
            self.set_fact("format", str(FORMAT))
        elif found != str(FORMAT) and not (read_only and found in READABLE):
            fix = "Go on with the version that began this run."
            raise InvalidInput("journal", f"{path} of format {found}", f"format {FORMAT}", fix)

    def append(self, drafts: Sequence[Draft]) -> int:
        chain = self._chain
        with self._transaction():
            for draft in drafts:
                chain = chained(chain, draft)
                values = (draft.time_s, draft.kind, draft.body, chain)
                done = self._db.execute("insert into entries (time_s, kind, body, chain) values (?, ?, ?, ?)", values)
        self._chain = chain
        serial = int(done.lastrowid or 0)
        self._note_head(serial)
        return serial

    def _note_head(self, serial: int) -> None:
        """Not forced to disk, and written after the entries are: it can be older than they, never newer."""
        if self._head is not None:
            with suppress(OSError):
                os.pwrite(self._head, head_text(serial, self._chain).encode(), 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of what is written inside, durable at the end, or nothing: NotWritten."""
        try:
            self._db.execute("begin immediate")
            yield
            self._db.execute("commit")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise NotWritten(str(error)) from error

    def entries(self, after: int = 0) -> Iterator[Entry]:
        found = self._db.execute("select serial, time_s, kind, body from entries where serial > ? order by 1", (after,))
        for serial, time_s, kind, body in found:
            yield Entry(serial=serial, time_s=time_s, kind=kind, body=body)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        kept = "select serial from snapshots order by 1 desc limit ?"
        with self._transaction():
            self._db.execute("insert or replace into snapshots values (?, ?)", (snapshot.serial, snapshot.body))
            self._db.execute(f"delete from snapshots where serial not in ({kept})", (_SNAPSHOTS_KEPT,))  # noqa: S608 - a constant

    def latest_snapshot(self) -> Snapshot | None:
        found = self._db.execute("select serial, body from snapshots order by 1 desc limit 1").fetchone()
        return Snapshot(serial=found[0], body=found[1]) if found else None

    def fact(self, name: str) -> str | None:
        found = self._db.execute("select value from facts where name = ?", (name,)).fetchone()
        return str(found[0]) if found else None

    def set_fact(self, name: str, value: str) -> None:
        self._db.execute("insert or replace into facts values (?, ?, ?)", (name, value, sealed(name, value)))

    def copy_to(self, path: Path) -> None:
        """Everything as it is now, while others write, as a journal of its own with its head beside it."""
        copy = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.backup(copy)
            copy.execute("pragma journal_mode=delete")  # one file, with nothing beside it that could be left behind
            last = copy.execute("select serial, chain from entries order by serial desc limit 1").fetchone()
        finally:
            copy.close()
        path.with_name(HEAD).write_text(head_text(*(last or (0, 0))))

    def close(self) -> None:
        self._db.close()
        if self._head is not None:
            os.close(self._head)
            self._head = None
