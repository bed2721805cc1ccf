"""What the machine wants remembered, written together: the facts of one turn are one transaction of the journal.

Nothing that follows from a fact may be done before `commit` has returned. If the disk refuses, the facts stay here and
are written first when it takes them; so the journal never lacks one in the middle. Snapshots and the bytes on the wire
are by-products: where they cannot be written, that is told and the run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import structlog

from coordinator.decisions import facts
from coordinator.decisions.state import State
from coordinator.record import snapshots
from coordinator.record.journal import JOURNAL, Draft, Entry, Journal, SqliteJournal
from coordinator.record.plain import from_plain, to_plain

log = structlog.get_logger()

_encoded = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

Traffic = Mapping[tuple[str, int, str], int]
"""Bytes of messages by (member, round of its order, in or out)."""


def fact_of(entry: Entry) -> facts.Fact:
    """What an entry tells."""
    return from_plain(entry.kind, json.loads(entry.body))


def facts_of(journal: Journal) -> Iterator[tuple[facts.Fact, float]]:
    """Everything that a journal tells, each with its time on the run clock."""
    for entry in journal.entries():
        yield fact_of(entry), entry.time_s


def facts_in(folder: Path) -> list[tuple[facts.Fact, float]]:
    """The same of a run's folder, for those who only look."""
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    try:
        return list(facts_of(journal))
    finally:
        journal.close()


class Ledger:
    """One run's journal, as the shell writes it. traffic: counted since the last call; keep_traffic: where it goes."""

    def __init__(
        self, journal: Journal, *, traffic: Callable[[], Traffic], keep_traffic: Callable[[int, Traffic], None]
    ) -> None:
        self._journal = journal
        self._traffic = traffic
        self._keep_traffic = keep_traffic
        self._facts: list[facts.Fact] = []
        self._drafts: list[Draft] = []

    def add(self, fact: facts.Fact, now: float) -> None:
        """Remember this with the next `commit`."""
        kind, fields = to_plain(fact)
        self._facts.append(fact)
        self._drafts.append(Draft(time_s=now, kind=kind, body=_encoded(fields).encode()))

    def commit(self, state: State) -> list[facts.Fact]:
        """Make everything added durable; returns it. NotWritten: nothing is, and all of it waits for the next time.

        state: exactly what the journal will tell then; kept as a snapshot now and again.
        """
        if not self._drafts:
            return []
        serial = self._journal.append(self._drafts)
        told, self._facts, self._drafts = self._facts, [], []
        closed = [fact.round_no for fact in told if isinstance(fact, facts.RoundClosed)]
        if closed:
            self._note_round(closed[-1], state, serial)
        elif any(isinstance(fact, facts.Ended) for fact in told):  # the last models have been delivered since
            self._note_traffic(state.round_no)
        return told

    def _note_traffic(self, round_no: int) -> None:
        try:
            self._keep_traffic(round_no, self._traffic())
        except OSError as error:
            log.warning("report.not_written", round=round_no, reason=str(error))

    def _note_round(self, round_no: int, state: State, serial: int) -> None:
        try:
            self._keep_traffic(round_no, self._traffic())
            if (round_no + 1) % snapshots.EVERY_ROUNDS == 0:
                self._journal.save_snapshot(snapshots.take(state, serial))
        except OSError as error:
            log.warning("report.not_written", round=round_no, reason=str(error))
