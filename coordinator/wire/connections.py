"""What the wire keeps for each connection: who is there, the report on its way in, the payloads on their way out.

How often somebody is heard or answered is limited for a member by its name, over all of its connections; for a stranger
by its connection, its address and all strangers together, so that connecting again brings nothing. Memory is bounded.

A report that offers payloads waits in `Arrivals` until every slice has come and is verified, then all of it is staged.
The machine is asked whether it is wanted before a byte is fetched, and again before it is staged. `Deliveries` reads
each slice of an offered payload into a buffer of its own, because the socket keeps it until it has left. Who is a
member, and what a report means, is the machine's to decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.decisions.actions import BlobRef, step_at
from coordinator.decisions.events import Event, GoodbyeArrived, ReportDeclined, StatsArrived, UpdateArrived
from coordinator.record.model_forms import Payload
from coordinator.record.store import STATS, UPDATE, UPDATE_STATS, Store
from protocol.codec import offers
from protocol.conversation import Conversation
from protocol.errors import InvalidField
from protocol.messages import Goodbye, Grant, Heartbeat, Message, Side, Slice, Stats, Step, Update
from protocol.sealed_sets import read_request
from protocol.tensors import Layout
from protocol.traffic import Dispatch, Intake, To
from protocol.transfer import Fate, Span

STRANGERS = 1_000
"""Connections remembered without being welcomed; the one that has been silent longest is forgotten first."""

ADDRESSES = 1_000
"""Addresses of strangers that are remembered; the one that was answered least lately is forgotten first."""

ANSWERS_PER_S = 1.0
ANSWERS_AT_ONCE_S = 5.0
"""Errors sent to one peer: garbage is answered, but not at any rate."""

ADDRESS_ANSWERS_PER_S = 2.0
ADDRESS_ANSWERS_AT_ONCE_S = 50.0
"""The same for all strangers of an address: there may be a whole hospital behind it."""

ALL_ANSWERS_PER_S = 10.0
ALL_ANSWERS_AT_ONCE_S = 20.0
"""The same for all strangers together."""

BURST_S = 2.0
"""A peer may send at once what it may send in so many seconds."""


@dataclass(kw_only=True)
class RateLimit:
    """Something that is granted at a steady rate and may be saved up to a point. Times are the caller's."""

    per_s: float
    most: float
    left: float
    at: float

    @staticmethod
    def full(per_s: float, burst_s: float, now: float) -> RateLimit:
        most = max(per_s * burst_s, 1.0)
        return RateLimit(per_s=per_s, most=most, left=most, at=now)

    def take(self, now: float) -> bool:
        """Use one up; False when there is none."""
        self.left = min(self.most, self.left + (now - self.at) * self.per_s)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(kw_only=True)
class Peer:
    """One connection. identity: its key, or the name its hello gave; member: whom the machine has welcomed there."""

    connection: str
    address: str
    messages: RateLimit
    answers: RateLimit
    identity: str = ""
    member: str | None = None
    round_no: int = 0
    """Of the latest order sent to it: what its traffic is counted under."""
    conversation: Conversation = field(default_factory=lambda: Conversation(Side.COORDINATOR))
    heard_told_at: float = -1.0
    faults: int = 0


class Peers:
    """Connections by name."""

    def __init__(self, *, messages_per_s: float) -> None:
        self._per_s = messages_per_s
        self._members: dict[str, Peer] = {}
        self._strangers: OrderedDict[str, Peer] = OrderedDict()
        self._allowances: dict[str, tuple[RateLimit, RateLimit]] = {}
        """Of every member that was ever welcomed: messages and answers."""
        self._addresses: OrderedDict[str, RateLimit] = OrderedDict()
        self._all_strangers = RateLimit.full(ALL_ANSWERS_PER_S, ALL_ANSWERS_AT_ONCE_S, 0.0)

    def get(self, connection: str) -> Peer | None:
        return self._members.get(connection) or self._strangers.get(connection)

    def meet(self, connection: str, address: str, now: float) -> Peer:
        """The peer at this connection, made if it is new."""
        known = self._members.get(connection)
        if known is not None:
            return known
        peer = self._strangers.get(connection)
        if peer is None:
            messages, answers = self._fresh(now)
            peer = Peer(connection=connection, address=address, messages=messages, answers=answers)
            self._strangers[connection] = peer
            if len(self._strangers) > STRANGERS:
                self._strangers.popitem(last=False)
        self._strangers.move_to_end(connection)
        return peer

    def may_answer(self, peer: Peer, now: float) -> bool:
        """Whether one more fault of this peer may be answered, logged and held against it; uses that up."""
        if not peer.answers.take(now):
            return False
        return peer.member is not None or (self._address(peer.address, now).take(now) and self._all_strangers.take(now))

    def welcome(self, peer: Peer, member: str) -> None:
        """This connection is a member's now. What the member has used up elsewhere stays used up."""
        peer.member = member
        peer.messages, peer.answers = self._allowances.setdefault(member, (peer.messages, peer.answers))
        self._strangers.pop(peer.connection, None)
        self._members[peer.connection] = peer

    def forget(self, connection: str) -> None:
        """It is nobody's; if it sends again, it is a stranger."""
        self._members.pop(connection, None)
        self._strangers.pop(connection, None)

    def keep_as_stranger(self, peer: Peer) -> None:
        """It is nobody's, but a hello of it is still to be answered."""
        self.forget(peer.connection)
        peer.member = None
        self._strangers[peer.connection] = peer

    def _fresh(self, now: float) -> tuple[RateLimit, RateLimit]:
        return RateLimit.full(self._per_s, BURST_S, now), RateLimit.full(ANSWERS_PER_S, ANSWERS_AT_ONCE_S, now)

    def _address(self, address: str, now: float) -> RateLimit:
        found = self._addresses.get(address)
        if found is None:
            found = RateLimit.full(ADDRESS_ANSWERS_PER_S, ADDRESS_ANSWERS_AT_ONCE_S, now)
            self._addresses[address] = found
            if len(self._addresses) > ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return found

    def __len__(self) -> int:
        return len(self._members) + len(self._strangers)


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
        for name in ("tables", "row"):
            small = getattr(message, name, None)
            if small is not None and small.data is None:
                raise Unwanted("wrong-tensors", f"{small.size_bytes} bytes of {name}; they must fit one message")
        self._require_readable(message)

    def _require_readable(self, message: Report) -> None:
        try:
            if isinstance(message, Update) and message.row is not None:
                read_request(message.row)
        except InvalidField as error:
            raise Unwanted("bad-row", str(error)) from error


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
        row=() if message.row is None else read_request(message.row),
    )


def step_of(message: Message) -> Step:
    """The step that a report is."""
    return step_at(message.KIND, int(getattr(message, "round_no", 0)))


class Deliveries:
    """Open offers by (connection, transfer). What is to be sent after any call is taken from `due`."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._offered: dict[tuple[str, str], tuple[Payload, Step | None]] = {}
        self._spans: dict[tuple[str, str, int], To[Span]] = {}
        """Slices to be sent, in order. By place: one that is asked for again while it waits is not sent twice."""

    @property
    def is_waiting(self) -> bool:
        """Whether slices are to be sent that found no room yet."""
        return bool(self._spans)

    def offer(self, connection: str, payload: Payload, step: Step | None) -> None:
        """A message that announces this payload is about to be sent. Earlier orders' payloads are of no more use; the
        initial model's, which has no step, is."""
        if payload.transfer is None:
            return
        outdated = [
            key for key, (_, before) in self._offered.items() if key[0] == connection and before not in (None, step)
        ]
        self._drop(key for key in outdated if key[1] != payload.transfer)
        self._offered[connection, payload.transfer] = (payload, step)
        self._dispatch.offer(connection, payload.transfer, payload.size_bytes)

    def granted(self, connection: str, grant: Grant) -> None:
        """A grant came: slices are due, to any peers."""
        self._queue(self._dispatch.granted(connection, grant))

    def beat(self, connection: str, beat: Heartbeat) -> None:
        """A heartbeat that has the order needs its payload no more, though the last receipt was lost."""
        have = beat.have
        if have is not None:
            offered = [(key, step) for key, (_, step) in self._offered.items() if key[0] == connection]
            self._drop(key for key, step in offered if step is None or have.place >= step.place)

    def drop(self, connection: str, transfer: str | None = None) -> None:
        """End one delivery to a peer, or all: it has gone, begins afresh, or cancels."""
        self._drop([key for key in self._offered if key[0] == connection and transfer in (None, key[1])])

    def due(self, has_room: Callable[[str], bool]) -> Iterator[To[Slice]]:
        """Slices for peers that have room, in order; each is read when it is taken. The others go on waiting."""
        full: set[str] = set()
        for key, one in list(self._spans.items()):
            if one.peer in full or key not in self._spans:
                continue
            if (one.peer, one.what.transfer) not in self._offered:
                del self._spans[key]
            elif not has_room(one.peer):
                full.add(one.peer)
            else:
                del self._spans[key]
                piece = self._read(one)
                if piece is not None:
                    yield To(one.peer, piece)

    def _read(self, one: To[Span]) -> Slice | None:
        try:
            payload, _ = self._offered[one.peer, one.what.transfer]
            return one.what.filled(payload.read(one.what.start, one.what.stop))
        except OSError:  # collected meanwhile: who waits for it will ask for the order, and get a newer one
            self._drop([(one.peer, one.what.transfer)])
            return None

    def _drop(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            del self._offered[key]
            self._queue(self._dispatch.drop(*key))

    def _queue(self, spans: Iterable[To[Span]]) -> None:
        for one in spans:
            self._spans[one.peer, one.what.transfer, one.what.start] = one
