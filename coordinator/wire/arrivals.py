"""Reports on their way in: a message that offers payloads waits here until they have come, then all of it is staged.

Keeps slices through `Store`, credit through the protocol's `Intake`. A report is arrived when every set of it is here
and verified. Whether it is wanted is the machine's to decide, which is asked before a byte is fetched and again before
what has come is staged: nothing is set aside for a report that the machine would not look at. Whether its tensors could
be wanted at all (names and sizes) is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from coordinator.decisions.actions import BlobRef, step_at
from coordinator.decisions.events import Event, GoodbyeArrived, ReportDeclined, StatsArrived, UpdateArrived
from coordinator.record.store import STATS, UPDATE, UPDATE_STATS, Store
from coordinator.wire.peers import Peer
from protocol.codec import offers
from protocol.messages import Goodbye, Grant, Message, Slice, Stats, Step, Update
from protocol.tensors import Layout
from protocol.traffic import Intake, To
from protocol.transfer import Fate

Report = Stats | Update | Goodbye


class Unwanted(Exception):
    """A report whose tensors cannot be those of the run; `code` is the wire's."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be offered: the layouts of updates, and how many bytes of statistics the model's layers can have."""

    updates: tuple[Layout, ...]
    statistics_bytes: int


class Judge(Protocol):
    """Whoever decides about reports: the machine."""

    def expects(self, connection: str, step: Step) -> bool:
        """Whether a report over this connection would be looked at."""
        ...

    def is_inspecting(self, member: str, step: Step) -> bool:
        """Whether the member's report is here and not judged yet: a repeat must not write over it."""
        ...


@dataclass(kw_only=True)
class _Waiting:
    message: Report
    missing: set[str]


class Arrivals:
    """Reports by connection; one at a time from each, because a newer one makes the older useless."""

    def __init__(self, *, store: Store, limits: Limits, intake: Intake, judge: Judge) -> None:
        self._judge = judge
        self._store = store
        self._limits = limits
        self._intake = intake
        self._waiting: dict[str, _Waiting] = {}

    def report(self, peer: Peer, message: Report) -> tuple[tuple[To[Grant], ...], Event | None]:
        """A report came: grants for what it offers, or the event that it has arrived. Unwanted if it cannot be one."""
        member, step = str(peer.member), step_of(message)
        if self._judge.is_inspecting(member, step):
            return (), None
        self._require_fitting(message)
        if not self._judge.expects(peer.connection, step):
            return (), ReportDeclined(connection=peer.connection, step=step)
        offered = {str(one.transfer): one for one in offers(message)}
        if not offered:
            return (), self._arrived(peer, message)
        grants: list[To[Grant]] = []
        before = self._waiting.get(peer.connection)
        if before is None or before.message.KIND != message.KIND or before.message.round_no != message.round_no:
            grants += self._intake.drop(peer.connection)
            self._waiting[peer.connection] = _Waiting(message=message, missing=set(offered))
            self._store.incoming.drop(member, keep=frozenset(offered))
        waiting = self._waiting[peer.connection]
        for name, one in offered.items():
            if name in waiting.missing:
                held = self._store.incoming.held(member, name, one.size_bytes)
                grants += self._intake.offered(peer.connection, name, one.size_bytes, held)
        return tuple(grants), None

    def slice(self, peer: Peer, piece: Slice) -> tuple[tuple[To[Grant], ...], Event | None]:
        """A slice came: the grants that follow, and the event if it was the last that its report waited for."""
        arrival = self._intake.arrived(peer.connection, piece)
        waiting = self._waiting.get(peer.connection)
        if arrival.fate is not Fate.TAKEN or waiting is None:
            return arrival.grants, None
        self._store.incoming.take(str(peer.member), piece.transfer, piece.offset, piece.data)
        if not arrival.complete:
            return arrival.grants, None
        waiting.missing.discard(piece.transfer)
        if waiting.missing:
            return arrival.grants, None
        del self._waiting[peer.connection]
        return arrival.grants, self._arrived(peer, waiting.message)

    def drop(self, connection: str, transfer: str | None = None) -> tuple[To[Grant], ...]:
        """The peer has gone, or withdraws. Slices stay on disk: it may come back and go on."""
        waiting = self._waiting.get(connection)
        if waiting is not None and (transfer is None or transfer in waiting.missing):
            del self._waiting[connection]
            transfer = None
        return self._intake.drop(connection, transfer)

    def broken(self, peer: Peer) -> bool:
        """A payload was complete and not what its name says: nothing of it is kept. True if that may be our disk's
        fault."""
        self._waiting.pop(peer.connection, None)
        return self._store.incoming.drop(str(peer.member))

    def _arrived(self, peer: Peer, message: Report) -> Event:
        """All of it is here. Its slices stay where they are if it is of no use any more, or comes over a connection
        that was replaced meanwhile: its sender may offer them over the new one."""
        member, round_no, step = str(peer.member), message.round_no, step_of(message)
        if not self._judge.expects(peer.connection, step) or self._judge.is_inspecting(member, step):
            return ReportDeclined(connection=peer.connection, step=step)
        if not isinstance(message, Stats) and message.tables is not None:
            self._store.keep_tables(member, round_no, message.tables)
        if isinstance(message, Goodbye):
            return _event(peer.connection, message)
        statistics = message.moments if isinstance(message, Stats) else message.statistics
        sets = {STATS if isinstance(message, Stats) else UPDATE_STATS: statistics}
        if isinstance(message, Update):
            sets[UPDATE] = message.weights
        for kind, tensors in sets.items():
            if tensors is not None:
                self._store.stage(BlobRef(member=member, kind=kind, round_no=round_no), tensors)
        return _event(peer.connection, message)

    def _require_fitting(self, message: Report) -> None:
        if isinstance(message, Update) and message.weights.layout not in self._limits.updates:
            raise Unwanted("wrong-tensors", f"{len(message.weights.layout.specs)} tensors that are not the plan's")
        statistics = message.moments if isinstance(message, Stats) else getattr(message, "statistics", None)
        if statistics is not None and statistics.size_bytes > self._limits.statistics_bytes:
            expected = f"at most {self._limits.statistics_bytes} for this model's layers"
            raise Unwanted("bad-statistics", f"{statistics.size_bytes} bytes of statistics, {expected}")
        tables = getattr(message, "tables", None)
        if tables is not None and tables.data is None:
            raise Unwanted("wrong-tensors", f"{tables.size_bytes} bytes of tables; they must fit one message")


def _event(connection: str, message: Report) -> Event:
    if isinstance(message, Goodbye):
        return GoodbyeArrived(connection=connection, round_no=message.round_no, scores=message.scores)
    if isinstance(message, Stats):
        return StatsArrived(connection=connection, round_no=message.round_no, samples=message.samples)
    return UpdateArrived(
        connection=connection,
        round_no=message.round_no,
        steps=message.steps,
        train_loss=message.train_loss,
        scores=message.scores,
        measured=message.statistics is not None,
    )


def step_of(message: Message) -> Step:
    """The step that a report is."""
    return step_at(message.KIND, int(getattr(message, "round_no", 0)))
