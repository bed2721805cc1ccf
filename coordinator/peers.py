"""Who is at the other end of each connection, as far as the wire knows: conversation, rate, bytes. Bounded memory.

Strangers (connections that were never welcomed) are remembered too, because they must not flood us either, but only so
many of them. Whether somebody is a member is the machine's to decide.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from protocol.conversation import Conversation
from protocol.messages import Speaker

STRANGERS = 1_000
"""Connections remembered without being welcomed; the one that has been silent longest is forgotten first."""

BURST_S = 2.0
"""A peer may say at once what it may say in so many seconds."""


@dataclass(kw_only=True)
class Allowance:
    """Something that is granted at a steady rate and may be saved up to a point. Times are the caller's."""

    per_s: float
    most: float
    left: float
    at: float

    @staticmethod
    def full(per_s: float, burst_s: float, now: float) -> Allowance:
        most = max(per_s * burst_s, 1.0)
        return Allowance(per_s=per_s, most=most, left=most, at=now)

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
    messages: Allowance
    answers: Allowance
    """Errors we say to it: garbage is answered, but not at any rate."""
    identity: str = ""
    member: str | None = None
    round_no: int = 0
    """Of the latest order said to it: what its traffic is counted under."""
    conversation: Conversation = field(default_factory=lambda: Conversation(Speaker.COORDINATOR))
    heard_told_at: float = -1.0
    faults: int = 0


class Peers:
    """Connections by name."""

    def __init__(self, *, messages_per_s: float) -> None:
        self._per_s = messages_per_s
        self._members: dict[str, Peer] = {}
        self._strangers: OrderedDict[str, Peer] = OrderedDict()

    def get(self, connection: str) -> Peer | None:
        return self._members.get(connection) or self._strangers.get(connection)

    def meet(self, connection: str, now: float) -> Peer:
        """The peer at this connection, made if it is new."""
        known = self._members.get(connection)
        if known is not None:
            return known
        peer = self._strangers.get(connection)
        if peer is None:
            peer = Peer(
                connection=connection,
                messages=Allowance.full(self._per_s, BURST_S, now),
                answers=Allowance.full(1.0, 5.0, now),
            )
            self._strangers[connection] = peer
            if len(self._strangers) > STRANGERS:
                self._strangers.popitem(last=False)
        self._strangers.move_to_end(connection)
        return peer

    def welcome(self, peer: Peer, member: str) -> None:
        """This connection is a member's now."""
        peer.member = member
        self._strangers.pop(peer.connection, None)
        self._members[peer.connection] = peer

    def forget(self, connection: str) -> None:
        """It is nobody's; should it speak again, it is a stranger."""
        self._members.pop(connection, None)
        self._strangers.pop(connection, None)

    def __len__(self) -> int:
        return len(self._members) + len(self._strangers)
