"""Tracks who is connected: each member's newest connection, when messages were last received and sent, and the latest
order sent. Kept in memory only; durable state is in `state`.

Knows neither wire nor policy; it handles have and want with the protocol's Outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from coordinator.decisions.actions import Order
from coordinator.decisions.facts import Lost
from coordinator.decisions.rules import PaceRules
from coordinator.decisions.state import Member, Status
from protocol.delivery import Outbox
from protocol.messages import Heartbeat, Step

CHANGES, CHANGES_S = 20, 100.0
"""At most this many membership changes of one member are journalled within this many seconds of run time: a process
that restarts repeatedly causes few, and one that keeps rejoining or changing its sample counts must not fill the
disk."""

_REPLACED = 64
"""Number of a member's replaced processes or connections that are kept."""


@dataclass(kw_only=True)
class Link:
    """Connection state of one member. Times are on the run clock."""

    received_at: float
    connection: str | None = None
    sent_at: float = 0.0
    sent_order: Order | None = None
    """The latest order sent over the current connection."""
    offered: tuple[int, int] | None = None
    """Place of the order that the outbox holds."""
    outbox: Outbox = field(default_factory=Outbox)
    process: str | None = None
    """Number of the member's latest process; None if its hello had none."""
    replaced: tuple[str, ...] = ()
    """The member's replaced processes, or connections where a process has no number, latest last."""
    rivals: int = 0
    """Refused hellos of other processes under this name since the last Contested fact."""

    def is_busy(self, member: Member) -> bool:
        """Whether the member works on an order and should not be interrupted by a newer one."""
        return (
            self.sent_order is not None
            and self.sent_order.kind != "finish"
            and not member.has_answered(self.sent_order)
        )

    def has_sent_order(self, member: Member) -> bool:
        """Whether the member's current order was sent over the current connection."""
        return self.sent_order is not None and member.order is not None and self.sent_order.place == member.order.place

    def offer(self, order: Order) -> None:
        """Put the latest order, sent or not, into the outbox, so that it is sent if the member asks for it twice."""
        if order.place != self.offered:
            self.offered = order.place
            self.outbox.hold(order.step)


class Roster:
    """Links by member and by connection. Invariant: a connection has at most one member, and vice versa."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._members: dict[str, str] = {}
        self._changed: dict[str, tuple[float, ...]] = {}

    def restart(self, members: Iterable[str], now: float) -> None:
        """Start over after a restart: nobody is connected, and every member gets time to reconnect."""
        self._members = {}
        self._links = {name: Link(received_at=now) for name in members}

    def connect(self, member: str, connection: str, now: float, process: str | None = None) -> str | None:
        """Set a member's newest connection and its process; return the connection that it replaces."""
        self.release(connection)
        before = self._links.get(member)
        earlier = before.connection if before is not None else None
        replaced = before.replaced if before is not None else ()
        if earlier is not None:
            self._members.pop(earlier)
        gave_way = earlier if before is None or before.process is None else before.process
        if gave_way is not None and gave_way != process:
            replaced = (*replaced, gave_way)[-_REPLACED:]
        self._links[member] = Link(
            received_at=now, connection=connection, sent_at=now, process=process, replaced=replaced
        )
        self._members[connection] = member
        return earlier

    def may_change(self, member: str, now: float) -> bool:
        """Whether another membership change may be journalled now; counts it if so."""
        recent = tuple(at for at in self._changed.get(member, ()) if now < at + CHANGES_S)
        if len(recent) >= CHANGES:
            return False
        self._changed[member] = (*recent, now)
        return True

    def release(self, connection: str) -> str | None:
        """Remove a lost connection; return its member, which is not considered lost yet."""
        member = self._members.pop(connection, None)
        if member is not None:
            link = self._links[member]
            link.connection = link.sent_order = None
        return member

    def drop(self, member: str) -> str | None:
        """Remove a former member; return the connection it had."""
        link = self._links.pop(member, None)
        if link is None or link.connection is None:
            return None
        self._members.pop(link.connection)
        return link.connection

    def member_of(self, connection: str) -> str | None:
        return self._members.get(connection)

    def connections(self) -> dict[str, str]:
        """Return the connection of each connected member."""
        return {member: connection for connection, member in self._members.items()}

    def connection_of(self, member: str) -> str | None:
        link = self._links.get(member)
        return link.connection if link is not None else None

    def link(self, member: str) -> Link | None:
        return self._links.get(member)

    def received(self, connection: str, now: float) -> str | None:
        """Note a sign of life; return its member, None if the connection belongs to no member."""
        member = self._members.get(connection)
        if member is not None:
            self._links[member].received_at = now
        return member

    def last_received(self) -> dict[str, float]:
        """Return when a message of each member was last received, or when the process started."""
        return {name: link.received_at for name, link in self._links.items()}

    def death(self, members: Iterable[Member], pace: PaceRules, now: float) -> Lost | None:
        """Return the loss of the first of these members that has been silent for too long."""
        for member in members:
            link = self._links.get(member.name)
            if link is not None and now >= link.received_at + pace.dead_after_s:
                return Lost(member=member.name, silent_s=now - link.received_at)
        return None

    def deadlines(self, members: Iterable[Member], pace: PaceRules) -> Iterator[float]:
        """Yield when each of these members is lost without a sign of life, and when it is due a heartbeat."""
        for member in members:
            link = self._links.get(member.name)
            if link is not None and member.status is Status.PRESENT:
                yield link.received_at + pace.dead_after_s
            if link is not None and link.connection is not None:
                yield link.sent_at + pace.heartbeat_s

    def beat(self, member: str, beat: Heartbeat) -> Step | None:
        """Return the step to send (again) in response to a heartbeat, or None.

        A member cannot know which order of a round comes next: while it waits for `train`, an `anchor` may be due
        first. So wanting any step of the held order's round counts as wanting the held order.
        """
        outbox = self._links[member].outbox
        held, want = outbox.held, beat.want
        if held is not None and want is not None and want.round_no == held.round_no:
            beat = replace(beat, want=held)
        return outbox.received(beat)

    def faults(self) -> list[str]:
        """Return how the two mappings disagree; empty if they agree."""
        connected = {link.connection: name for name, link in self._links.items() if link.connection is not None}
        return [] if connected == self._members else [f"connections {self._members} are not those of the members"]
