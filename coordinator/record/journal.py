"""The journal of a run: facts in order, each durable before any action that depends on it.

`SqliteJournal` keeps numbered entries of bytes across any crash; other processes may read while it writes. Every entry
has a checksum over itself and the previous one; the last checksum is also stored in a file beside the journal, so that
an older copy or lost entries are detected (`journal_check`). `Ledger` writes the facts of one step in one transaction:
nothing that follows from a fact may be done before `commit` returns. `replay` applies a journal's facts to a machine.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import structlog
import xxhash

from coordinator.decisions import facts
from coordinator.decisions.facts import FACTS, Fact
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.state import State
from coordinator.record import snapshots
from coordinator.record.snapshots import Snapshot
from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.messages import Score

JOURNAL = "journal.sqlite"
"""File name of the journal in a run's folder."""

HEAD = "journal.head"
"""File beside the journal: number and checksum of its last entry, as text of constant length."""

FORMAT = 3
"""Raised when tables, encodings or the blobs beside them change their meaning; a journal of another format is
refused."""

READABLE = frozenset({"1", "2", str(FORMAT)})
"""Formats whose tables can be read: 1 has other blob checksums; 2 has no process instances and no entry checksums."""

_TABLES = """
create table if not exists entries (serial integer primary key, time_s real not null, kind text not null,
                                    body blob not null, chain integer not null) strict;
create table if not exists snapshots (serial integer primary key, body blob not null) strict;
create table if not exists facts (name text primary key, value text not null, seal integer not null) strict;
"""
"""The facts of the run are in `entries`; the table `facts` holds metadata, each item with its checksum."""
_SNAPSHOTS_KEPT = 2
"""The latest and the one before it."""


class NotWritten(OSError):
    """A write to the journal failed. Nothing of it was kept; the same write may be retried."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One entry to be written."""

    time_s: float
    kind: str
    body: bytes


def chained(before: int, draft: Draft | Entry) -> int:
    """Return the checksum of an entry whose predecessor has the checksum `before` (0 for the first entry)."""
    parts = struct.pack("<Qd", before, draft.time_s), draft.kind.encode(), b"\0", draft.body
    return xxhash.xxh3_64_intdigest(b"".join(parts)) >> 1  # SQLite's integers are signed


def sealed(name: str, value: str) -> int:
    """Return the checksum of one metadata item."""
    return xxhash.xxh3_64_intdigest(f"{name}\0{value}".encode()) >> 1


def head_text(serial: int, chain: int) -> str:
    """Return the content of the file `HEAD`."""
    return f"{serial:020d} {chain:020d}\n"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry as written. serial counts from 1 without gaps; time_s is on the run clock, which never goes back."""

    serial: int
    time_s: float
    kind: str
    body: bytes


class Journal(Protocol):
    """The interface of a coordinator's journal."""

    def append(self, drafts: Sequence[Draft]) -> int:
        """Write entries, all or none; they are durable when this returns. Returns the last serial. NotWritten if the
        disk fails."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield entries with a serial above `after`, in order."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store a state to start replay from; entries are never deleted. NotWritten if the disk fails."""

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest stored state, or None."""

    def metadata(self, name: str) -> str | None:
        """Return a metadata item of the run."""

    def set_metadata(self, name: str, value: str) -> None:
        """Set a metadata item of the run; durable when this returns."""

    def close(self) -> None:
        """Close the journal; nothing is lost if this is not called."""


class SqliteJournal:
    """A journal in one SQLite file. WAL and synchronous=FULL: a commit that returned survives even a power loss."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if read_only and not path.is_file():
            raise InvalidInput("journal", path, "the journal of a run", "Name the run's folder.")
        self._path = path
        try:
            if read_only:
                self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            else:
                self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # one thread at a time
                self._db.execute("pragma journal_mode=wal")
                self._db.execute("pragma synchronous=full")
                self._db.executescript(f"begin immediate; {_TABLES} commit;")  # all tables or none
            self._check_format(path, read_only)
            self._chain = 0 if read_only else self._last_chain()
        except sqlite3.DatabaseError as error:
            raise InvalidInput("journal", path, "an intact journal", str(error)) from error
        self._head = None if read_only else os.open(path.with_name(HEAD), os.O_WRONLY | os.O_CREAT, 0o600)

    def _last_chain(self) -> int:
        return self._chain_of("select chain from entries order by serial desc limit 1")

    def _chain_of(self, query: str, *values: object) -> int:
        return int(next(iter(self._rows(query, *values)), (0,))[0])

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield what a query finds; InvalidInput if the file is damaged there."""
        try:
            yield from self._db.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> InvalidInput:
        fix = f"{reason}. `fedap-coordinator recover {self._path.parent}` prints how to resume the run."
        return InvalidInput("journal", self._path, "an intact journal", fix)

    def _check_format(self, path: Path, read_only: bool) -> None:
        found = self.metadata("format")
        self._has_chain = found in (None, str(FORMAT))
        if found is None and not read_only:
            self.set_metadata("format", str(FORMAT))
        elif found != str(FORMAT) and not (read_only and found in READABLE):
            fix = "Continue with the version that began this run."
            raise InvalidInput("journal", f"{path} of format {found}", f"format {FORMAT}", fix)

    def append(self, drafts: Sequence[Draft]) -> int:
        chain, rows = self._chain, []
        for draft in drafts:
            chain = chained(chain, draft)
            rows.append((draft.time_s, draft.kind, draft.body, chain))
        with self._transaction():
            self._db.executemany("insert into entries (time_s, kind, body, chain) values (?, ?, ?, ?)", rows)
            serial = self.last_serial()
        self._chain = chain
        self._note_head(serial)
        return serial

    def _note_head(self, serial: int) -> None:
        """Write the head file: after the entries and without fsync, so it can be older than they are, never newer."""
        if self._head is not None:
            with suppress(OSError):
                os.pwrite(self._head, head_text(serial, self._chain).encode(), 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Make everything written inside durable at the end, or nothing of it: NotWritten."""
        try:
            self._db.execute("begin immediate")
            yield
            self._db.execute("commit")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise NotWritten(str(error)) from error

    def entries(self, after: int = 0) -> Iterator[Entry]:
        written = "chain" if self._has_chain else "0"
        query = f"select serial, time_s, kind, body, {written} from entries where serial > ? order by 1"  # noqa: S608
        chain = self._chain_of("select chain from entries where serial = ?", after) if self._has_chain else 0
        for serial, time_s, kind, body, kept in self._rows(query, after):
            entry = Entry(serial=serial, time_s=time_s, kind=kind, body=body)
            if self._has_chain:
                chain = chained(chain, entry)
                if chain != kept:
                    raise self._damaged(f"entry {serial} has changed since it was written")
            yield entry

    def last_of(self, kind: str) -> Entry | None:
        """Return the newest entry of a kind; None if there is none. Reads no other entry."""
        ((serial,),) = self._rows("select max(serial) from entries where kind = ?", kind)
        return None if serial is None else next(self.entries(serial - 1), None)

    def last_serial(self) -> int:
        """Return the serial of the newest entry; 0 if there is none."""
        ((found,),) = self._rows("select max(serial) from entries")
        return int(found or 0)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        kept = "select serial from snapshots order by 1 desc limit ?"
        with self._transaction():
            self._db.execute("insert or replace into snapshots values (?, ?)", (snapshot.serial, snapshot.body))
            self._db.execute(f"delete from snapshots where serial not in ({kept})", (_SNAPSHOTS_KEPT,))  # noqa: S608 - a constant

    def latest_snapshot(self) -> Snapshot | None:
        found = next(iter(self._rows("select serial, body from snapshots order by 1 desc limit 1")), None)
        return Snapshot(serial=found[0], body=found[1]) if found else None

    def metadata(self, name: str) -> str | None:
        found = next(iter(self._rows("select value from facts where name = ?", name)), None)
        return str(found[0]) if found else None

    def set_metadata(self, name: str, value: str) -> None:
        try:
            self._db.execute("insert or replace into facts values (?, ?, ?)", (name, value, sealed(name, value)))
        except sqlite3.Error as error:
            raise NotWritten(str(error)) from error

    def copy_to(self, path: Path) -> None:
        """Copy the current content, even while others write, to a new journal with its own head file."""
        copy = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.backup(copy)
            copy.execute("pragma journal_mode=delete")  # a single file: no -wal file that a later copy could miss
            last = copy.execute("select serial, chain from entries order by serial desc limit 1").fetchone()
        finally:
            copy.close()
        path.with_name(HEAD).write_text(head_text(*(last or (0, 0))))

    def close(self) -> None:
        self._db.close()
        if self._head is not None:
            os.close(self._head)
            self._head = None


_SCORES = "scores"
"""The one field that holds records instead of plain values."""


def fields_of(fact: Fact) -> tuple[str, dict[str, object]]:
    """Return (kind, fields) of a fact; fields nest tuples only."""
    fields: dict[str, object] = {name: getattr(fact, name) for name in _names(type(fact).__name__)}
    scores = fields.get(_SCORES)
    if isinstance(scores, tuple):
        fields[_SCORES] = tuple(score.write([]) for score in scores)
    return type(fact).__name__, fields


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(FACTS[kind]))


def fact_from(kind: str, fields: Mapping[str, object]) -> Fact:
    """Build a fact from the result of `fields_of`; lists become tuples, because JSON does not distinguish them."""
    made: Callable[..., Fact] | None = FACTS.get(kind)
    if made is None:
        raise InvalidInput("journal", f"a fact of kind {kind!r}", "one this version knows")
    try:
        return made(**{name: _value(name, value) for name, value in fields.items()})
    except (TypeError, InvalidField) as error:
        raise InvalidInput("journal", f"a fact {kind} that does not fit ({error})", "one this version wrote") from error


def _value(name: str, value: object) -> object:
    if name == _SCORES and isinstance(value, list | tuple):
        return tuple(Score(**one) for one in value)
    return _tuples(value)


def _tuples(value: object) -> object:
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


log = structlog.get_logger()

_encoded = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

Traffic = Mapping[tuple[str, int, str], int]
"""Bytes of messages by (member, round of its order, "in" or "out")."""


def fact_of(entry: Entry) -> Fact:
    """Return the fact of an entry."""
    return fact_from(entry.kind, json.loads(entry.body))


def facts_of(journal: Journal) -> Iterator[tuple[Fact, float]]:
    """Yield all facts of a journal, each with its time on the run clock."""
    for entry in journal.entries():
        yield fact_of(entry), entry.time_s


def facts_in(folder: Path) -> list[tuple[Fact, float]]:
    """Return all facts of a run's folder with their times, opening the journal read-only."""
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    try:
        return list(facts_of(journal))
    finally:
        journal.close()


class Ledger:
    """Writes one run's facts. If the disk fails, facts wait and are written first once it works again, so that the
    journal has no gaps. Snapshots and byte counts are optional: the run continues if they cannot be written.

    traffic: returns the bytes counted since the last call; traffic_file: where to report them, if anywhere.
    """

    def __init__(self, journal: Journal, *, traffic: Callable[[], Traffic], traffic_file: Path | None) -> None:
        self._journal = journal
        self._traffic = traffic
        self._traffic_file = traffic_file
        self._facts: list[tuple[Fact, float]] = []
        self._drafts: list[Draft] = []

    def add(self, fact: Fact, now: float) -> None:
        """Add a fact to the next `commit`."""
        kind, fields = fields_of(fact)
        self._facts.append((fact, now))
        self._drafts.append(Draft(time_s=now, kind=kind, body=_encoded(fields).encode()))

    def commit(self, state: State) -> list[tuple[Fact, float]]:
        """Make all added facts durable and return them with their times. NotWritten: none is durable, and all wait for
        the next call.

        state: the state after these facts; saved as a snapshot every `snapshots.EVERY_ROUNDS` rounds.
        """
        if not self._drafts:
            return []
        serial = self._journal.append(self._drafts)
        written, self._facts, self._drafts = self._facts, [], []
        closed = [fact.round_no for fact, _ in written if isinstance(fact, facts.RoundClosed)]
        has_ended = any(isinstance(fact, facts.Ended) for fact, _ in written)
        if closed or has_ended:  # at the end too: the final models were delivered after the last round closed
            round_no = closed[-1] if closed else state.round_no
            try:
                self._report_traffic(round_no)
                if closed and (round_no + 1) % snapshots.EVERY_ROUNDS == 0:
                    self._journal.save_snapshot(snapshots.take(state, serial))
            except OSError as error:
                log.warning("report.not_written", round=round_no, reason=str(error))
        return written

    def _report_traffic(self, round_no: int) -> None:
        """Write one line per closed round: bytes on the wire per member and direction. Not part of the journal."""
        counted = [[member, at, way, size] for (member, at, way), size in sorted(self._traffic().items())]
        if self._traffic_file is not None:
            with self._traffic_file.open("a") as file:
                file.write(json.dumps({"closed_round": round_no, "bytes": counted}) + "\n")


def replay(machine: RoundMachine, journal: Journal) -> float:
    """Apply a journal's facts to a machine, starting from the latest snapshot; return the last fact's run time.

    An unusable snapshot costs only time: all facts are replayed from the beginning."""
    ran_s, after = 0.0, 0
    snapshot = journal.latest_snapshot()
    state = snapshots.restore(snapshot) if snapshot is not None else None
    if snapshot is not None and state is not None:
        machine.restore(state)
        after = snapshot.serial - 1  # read its own entry again, only for the time
    for entry in journal.entries(after):
        ran_s = entry.time_s
        if state is None or entry.serial > after + 1:
            machine.replay(fact_of(entry), entry.time_s)
    return ran_s
