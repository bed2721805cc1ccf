"""State of each connection: its peer, the report being received, the payloads being sent.

Messages and answers are rate-limited: for a member by its name, over all of its connections; for a stranger by its
connection, its address and all strangers together, so that reconnecting gains nothing. Memory is bounded.

A report that offers payloads waits in `Arrivals` until every slice has arrived and is verified; then all of it is
staged. The machine decides whether it is wanted before a byte is fetched, and again before it is staged. `Deliveries`
reads each slice of an offered payload into a new buffer, because the socket keeps it until it is sent. The machine also
decides who is a member and what a report means.
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
"""Connections kept without being welcomed; the one that has been silent longest is forgotten first."""

ADDRESSES = 1_000
"""Addresses of strangers that are kept; the least recently answered one is forgotten first."""

ANSWERS_PER_S = 1.0
ANSWERS_AT_ONCE_S = 5.0
"""Rate of errors sent to one peer: garbage is answered, but not at any rate."""

ADDRESS_ANSWERS_PER_S = 2.0
ADDRESS_ANSWERS_AT_ONCE_S = 50.0
"""The same for all strangers of an address, which a whole hospital may share."""

ALL_ANSWERS_PER_S = 10.0
ALL_ANSWERS_AT_ONCE_S = 20.0
"""The same for all strangers together."""

BURST_S = 2.0
"""A peer may send at once as many messages as are allowed in this many seconds."""


@dataclass(kw_only=True)
class RateLimit:
    """A token bucket: refilled at a steady rate up to `most`. The caller passes the time."""

    per_s: float
    most: float
    left: float
    at: float

    @staticmethod
    def full(per_s: float, burst_s: float, now: float) -> RateLimit:
        most = max(per_s * burst_s, 1.0)
        return RateLimit(per_s=per_s, most=most, left=most, at=now)

    def take(self, now: float) -> bool:
        """Take one token; False if there is none."""
        self.left = min(self.most, self.left + (now - self.at) * self.per_s)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclass(kw_only=True)
class Peer:
    """One connection. identity: its key, or the name in its hello; member: the member that was welcomed on it."""

    connection: str
    address: str
    messages: RateLimit
    answers: RateLimit
    identity: str = ""
    member: str | None = None
    round_no: int = 0
    """Round of the latest order sent to it, under which its traffic is counted."""
    latest_update_round: int | None = None  # received over this connection; its sender still holds the update
    conversation: Conversation = field(default_factory=lambda: Conversation(Side.COORDINATOR))
    life_sign_at: float = -1.0
    faults: int = 0


class Peers:
    """Connections by name."""

    def __init__(self, *, messages_per_s: float) -> None:
        self._per_s = messages_per_s
        self._members: dict[str, Peer] = {}
        self._strangers: OrderedDict[str, Peer] = OrderedDict()
        self._allowances: dict[str, tuple[RateLimit, RateLimit]] = {}
        """Limits of messages and answers for every member that was ever welcomed."""
        self._addresses: OrderedDict[str, RateLimit] = OrderedDict()
        self._all_strangers = RateLimit.full(ALL_ANSWERS_PER_S, ALL_ANSWERS_AT_ONCE_S, 0.0)

    def get(self, connection: str) -> Peer | None:
        return self._members.get(connection) or self._strangers.get(connection)

    def meet(self, connection: str, address: str, now: float) -> Peer:
        """Return the peer of this connection, created if it is new."""
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
        """Whether one more fault of this peer may be answered, logged and counted as a strike; takes one token."""
        if not peer.answers.take(now):
            return False
        return peer.member is not None or (self._address(peer.address, now).take(now) and self._all_strangers.take(now))

    def welcome(self, peer: Peer, member: str) -> None:
        """Assign this connection to a member. Its rate limits continue from the member's other connections."""
        peer.member = member
        peer.messages, peer.answers = self._allowances.setdefault(member, (peer.messages, peer.answers))
        self._strangers.pop(peer.connection, None)
        self._members[peer.connection] = peer

    def forget(self, connection: str) -> None:
        """Forget a connection; if it sends again, it is a stranger."""
        self._members.pop(connection, None)
        self._strangers.pop(connection, None)

    def keep_as_stranger(self, peer: Peer) -> None:
        """Treat the connection as a stranger whose hello must still be answered."""
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
    """A report whose tensors cannot belong to this run; `code` is sent to its sender."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be offered: the layouts of updates, and the largest size of statistics for the model's layers."""

    updates: tuple[Layout, ...]
    statistics_bytes: int


class Judge(Protocol):
    """Decides on reports; implemented by the machine."""

    def expects(self, connection: str, step: Step) -> bool:
        """Whether a report over this connection would be inspected."""
        ...

    def is_inspecting(self, member: str, step: Step) -> bool:
        """Whether the member's report is being inspected: a repeat must not overwrite it."""
        ...


@dataclass(kw_only=True)
class _Waiting:
    message: Report
    missing: set[str]


class Arrivals:
    """Incoming reports, one at a time per connection, because a newer one replaces the older."""

    def __init__(self, *, store: Store, limits: Limits, intake: Intake, judge: Judge) -> None:
        self._judge = judge
        self._store = store
        self._limits = limits
        self._intake = intake
        self._waiting: dict[str, _Waiting] = {}

    def report(self, peer: Peer, message: Report) -> tuple[tuple[To[Grant], ...], Event | None]:
        """Handle a report: return grants for its payloads, or the event that it is complete. Raises Unwanted."""
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
        """Handle a slice: return the resulting grants, and the event if its report is now complete. The slices of one
        that is no longer needed stay on disk: its sender may offer them over the connection that replaced this one."""
        arrival = self._intake.arrived(peer.connection, piece)
        waiting = self._waiting.get(peer.connection)
        if arrival.fate is not Fate.TAKEN or waiting is None:
            return arrival.grants, None
        self._store.incoming.take(str(peer.member), piece.transfer, piece.offset, piece.data)
        if arrival.complete:
            waiting.missing.discard(piece.transfer)
        if waiting.missing:
            return arrival.grants, None
        del self._waiting[peer.connection]
        step = step_of(waiting.message)
        if not self._judge.expects(peer.connection, step) or self._judge.is_inspecting(str(peer.member), step):
            return arrival.grants, ReportDeclined(connection=peer.connection, step=step)
        return arrival.grants, self._arrived(peer, waiting.message)

    def drop(self, connection: str, transfer: str | None = None) -> tuple[To[Grant], ...]:
        """Drop one transfer of a peer, or all: it is gone or cancels. Slices stay on disk, so that it can resume."""
        waiting = self._waiting.get(connection)
        if waiting is not None and (transfer is None or transfer in waiting.missing):
            del self._waiting[connection]
            transfer = None
        return self._intake.drop(connection, transfer)

    def broken(self, peer: Peer) -> bool:
        """Delete a complete payload whose bytes do not match its name. True if our disk may be at fault."""
        self._waiting.pop(peer.connection, None)
        return self._store.incoming.drop(str(peer.member))

    def _arrived(self, peer: Peer, message: Report) -> Event:
        """Stage a complete report that is expected."""
        member, round_no = str(peer.member), message.round_no
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
    """Return the step of a report."""
    return step_at(message.KIND, int(getattr(message, "round_no", 0)))


class Deliveries:
    """Open offers by (connection, transfer). After any call, `due` yields the slices to send."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._offered: dict[tuple[str, str], tuple[Payload, Step | None]] = {}
        self._spans: dict[tuple[str, str, int], To[Span]] = {}
        """Slices to be sent, in order; keyed by offset, so that one requested again while it waits is sent once."""

    @property
    def is_waiting(self) -> bool:
        """Whether slices wait for room in the socket."""
        return bool(self._spans)

    def __bool__(self) -> bool:
        """Whether any payload is offered."""
        return bool(self._offered)

    def offer(self, connection: str, payload: Payload, step: Step | None) -> None:
        """Open an offer: a message that announces this payload is about to be sent. Payloads of earlier orders are
        dropped; the initial model, which has no step, is kept."""
        if payload.transfer is None:
            return
        outdated = [
            key for key, (_, before) in self._offered.items() if key[0] == connection and before not in (None, step)
        ]
        self._drop(key for key in outdated if key[1] != payload.transfer)
        self._offered[connection, payload.transfer] = (payload, step)
        self._dispatch.offer(connection, payload.transfer, payload.size_bytes)

    def granted(self, connection: str, grant: Grant) -> None:
        """Handle a grant: queue the slices it allows, to any peers."""
        self._queue(self._dispatch.granted(connection, grant))

    def beat(self, connection: str, beat: Heartbeat) -> None:
        """Drop the payload of an order that the heartbeat has: the last receipt may have been lost."""
        have = beat.have
        if have is not None:
            offered = [(key, step) for key, (_, step) in self._offered.items() if key[0] == connection]
            self._drop(key for key, step in offered if step is None or have.place >= step.place)

    def drop(self, connection: str, transfer: str | None = None) -> None:
        """End one delivery to a peer, or all: it is gone, starts over, or cancels."""
        self._drop([key for key in self._offered if key[0] == connection and transfer in (None, key[1])])

    def due(self, has_room: Callable[[str], bool]) -> Iterator[To[Slice]]:
        """Yield slices for peers that have room, in order, each read on demand. The others keep waiting."""
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
        except OSError:  # deleted meanwhile: its receiver will request the order again and get a newer one
            self._drop([(one.peer, one.what.transfer)])
            return None

    def _drop(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            del self._offered[key]
            self._queue(self._dispatch.drop(*key))

    def _queue(self, spans: Iterable[To[Span]]) -> None:
        for one in spans:
            self._spans[one.peer, one.what.transfer, one.what.start] = one
