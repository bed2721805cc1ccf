"""Who is at the other end of each connection, as far as the wire knows: conversation, rate, bytes. Bounded memory.

What somebody may say or be answered is a member's by its name, over all of its connections; a stranger's by its
connection, its address and all strangers together: who connects anew has nothing new to spend.

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

ADDRESSES = 1_000
"""Addresses of strangers that are remembered; the one that was answered least lately is forgotten first."""

ANSWERS_PER_S = 1.0
ANSWERS_AT_ONCE_S = 5.0
"""Errors said to one peer: garbage is answered, but not at any rate."""

ADDRESS_ANSWERS_PER_S = 2.0
ADDRESS_ANSWERS_AT_ONCE_S = 50.0
"""The same for all strangers of an address: there may be a whole hospital behind it."""

ALL_ANSWERS_PER_S = 10.0
ALL_ANSWERS_AT_ONCE_S = 20.0
"""The same for all strangers together."""

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
    address: str
    messages: Allowance
    answers: Allowance
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
        self._allowances: dict[str, tuple[Allowance, Allowance]] = {}
        """Of every member that was ever welcomed: messages and answers."""
        self._addresses: OrderedDict[str, Allowance] = OrderedDict()
        self._all_strangers = Allowance.full(ALL_ANSWERS_PER_S, ALL_ANSWERS_AT_ONCE_S, 0.0)

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
        """It is nobody's; should it speak again, it is a stranger."""
        self._members.pop(connection, None)
        self._strangers.pop(connection, None)

    def _fresh(self, now: float) -> tuple[Allowance, Allowance]:
        return Allowance.full(self._per_s, BURST_S, now), Allowance.full(ANSWERS_PER_S, ANSWERS_AT_ONCE_S, now)

    def _address(self, address: str, now: float) -> Allowance:
        found = self._addresses.get(address)
        if found is None:
            found = Allowance.full(ADDRESS_ANSWERS_PER_S, ADDRESS_ANSWERS_AT_ONCE_S, now)
            self._addresses[address] = found
            if len(self._addresses) > ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return found

    def __len__(self) -> int:
        return len(self._members) + len(self._strangers)
