"""Who is connected: the newest connection of each member, when messages were last received and sent, and which.
All of it ends with the process; durable state is in `state`.

Knows no wire and no policy: it remembers, and it counts have and want through the protocol's Outbox.
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
"""Changes of one member that are journalled at most within so many seconds of the run: a process that starts again and
again makes few, and whoever leaves and comes, or counts its samples anew, without end must not fill the disk."""

_REPLACED = 64
"""Replacements of a member's connection that are remembered."""


@dataclass(kw_only=True)
class Link:
    """What this process knows of one member. Times are of the run clock."""

    heard_at: float
    connection: str | None = None
    sent_at: float = 0.0
    said: Order | None = None
    """The latest order said over the present connection."""
    offered: tuple[int, int] | None = None
    """Place of the order that the outbox was given last."""
    outbox: Outbox = field(default_factory=Outbox)
    replaced: tuple[str, ...] = ()
    """Which connection of the member gave way to another, each time, the latest last."""
    rivals: int = 0
    """Hellos of other processes that were refused since it was told."""

    def is_busy(self, member: Member) -> bool:
        """Whether the member works on something it was told, and should not be interrupted by a newer order."""
        return self.said is not None and self.said.kind != "finish" and not member.has_answered(self.said)

    def has_sent_order(self, member: Member) -> bool:
        """Whether the member's present order was sent over the present connection."""
        return self.said is not None and member.order is not None and self.said.place == member.order.place

    def offer(self, order: Order) -> None:
        """Hold the latest order, said or not, so that being asked for it twice brings it."""
        if order.place != self.offered:
            self.offered = order.place
            self.outbox.hold(order.step)


class Roster:
    """Links by member and by connection. Law: a connection belongs to one member at most, and the other way round."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._members: dict[str, str] = {}
        self._changed: dict[str, tuple[float, ...]] = {}

    def restart(self, members: Iterable[str], now: float) -> None:
        """After a restart: nobody is connected, and everybody gets time to come back."""
        self._members = {}
        self._links = {name: Link(heard_at=now) for name in members}

    def connect(self, member: str, connection: str, now: float) -> str | None:
        """Give a member its newest connection; returns an earlier one that is nobody's any more."""
        self.release(connection)
        before = self._links.get(member)
        earlier = before.connection if before is not None else None
        replaced = before.replaced if before is not None else ()
        if earlier is not None:
            self._members.pop(earlier)
            replaced = (*replaced, earlier)[-_REPLACED:]
        self._links[member] = Link(heard_at=now, connection=connection, sent_at=now, replaced=replaced)
        self._members[connection] = member
        return earlier

    def may_change(self, member: str, now: float) -> bool:
        """Whether another change of its membership may be journalled now; counts it if so."""
        recent = tuple(at for at in self._changed.get(member, ()) if now < at + CHANGES_S)
        if len(recent) >= CHANGES:
            return False
        self._changed[member] = (*recent, now)
        return True

    def release(self, connection: str) -> str | None:
        """This connection is gone; returns whose it was. The member is not dead by that."""
        member = self._members.pop(connection, None)
        if member is not None:
            link = self._links[member]
            link.connection = link.said = None
        return member

    def drop(self, member: str) -> str | None:
        """The member is no member any more; returns the connection it had."""
        link = self._links.pop(member, None)
        if link is None or link.connection is None:
            return None
        self._members.pop(link.connection)
        return link.connection

    def member_of(self, connection: str) -> str | None:
        return self._members.get(connection)

    def connections(self) -> dict[str, str]:
        """The connection of each member that has one."""
        return {member: connection for connection, member in self._members.items()}

    def connection_of(self, member: str) -> str | None:
        link = self._links.get(member)
        return link.connection if link is not None else None

    def link(self, member: str) -> Link | None:
        return self._links.get(member)

    def received(self, connection: str, now: float) -> str | None:
        """Note a sign of life; returns who gave it, None from a connection that is nobody's."""
        member = self._members.get(connection)
        if member is not None:
            self._links[member].heard_at = now
        return member

    def last_heard(self) -> dict[str, float]:
        """When each member was last heard from, or the process began."""
        return {name: link.heard_at for name, link in self._links.items()}

    def death(self, members: Iterable[Member], pace: PaceRules, now: float) -> Lost | None:
        """The first of these members that has been silent for too long."""
        for member in members:
            link = self._links.get(member.name)
            if link is not None and now >= link.heard_at + pace.dead_after_s:
                return Lost(member=member.name, silent_s=now - link.heard_at)
        return None

    def deadlines(self, members: Iterable[Member], pace: PaceRules) -> Iterator[float]:
        """When these members are dead without a sign of life, and when each is due a heartbeat."""
        for member in members:
            link = self._links.get(member.name)
            if link is not None and member.status is Status.PRESENT:
                yield link.heard_at + pace.dead_after_s
            if link is not None and link.connection is not None:
                yield link.sent_at + pace.heartbeat_s

    def beat(self, member: str, beat: Heartbeat) -> Step | None:
        """What a heartbeat calls for: the step to say (again), or None.

        A member cannot know which order of a round comes next: who waits for `train` may be owed the `anchor` before
        it. So wanting any step of the held one's round is wanting the held one.
        """
        outbox = self._links[member].outbox
        held, want = outbox.held, beat.want
        if held is not None and want is not None and want.round_no == held.round_no:
            beat = replace(beat, want=held)
        return outbox.received(beat)

    def faults(self) -> list[str]:
        """Empty, or how the two directions disagree."""
        connected = {link.connection: name for name, link in self._links.items() if link.connection is not None}
        return [] if connected == self._members else [f"connections {self._members} are not those of the members"]
