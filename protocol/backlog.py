"""How much of what a peer has sent may wait unread, and who has sent more than that. Pure accounting: counts come in.

A socket library gives a message to nobody before it is whole, and puts no limit on the number of its frames; so one
that never ends would take all memory. What has come in from a connection and has not been handed over is known from
outside: bytes that TCP has delivered to the library, less the wire bytes of the messages taken from it. Honest peers
keep that small: a stranger sends hello and waits, and no message is larger than the protocol's limits; what is more is
no matter of speed, and its connection may be cut. A member that is heard slowly may repeat what it was asked for again;
where that becomes much, its connection is held until it has been heard, and loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.limits import FRAME_BYTES, HEADER_BYTES, KIB, MIB, SETS_PER_MESSAGE, WINDOW_SLICES

STRANGER_BYTES: Final = HEADER_BYTES + 64 * KIB
"""What may wait from somebody who was not welcomed: one header of any size; a hello has less than 2 KiB."""

STRANGERS_BYTES: Final = 2 * MIB
"""The same for all of them together."""

UNREAD_BYTES: Final = 4 * MIB
"""What may lie in the socket from strangers of one address that have gone again; all addresses together: four times as
much. Beyond it strangers from there are sent away, then all newcomers, until the socket has been emptied: many who
come, fill and go leave more behind than one who stays."""

CONNECTION_BYTES: Final = 48 * KIB
"""What a connection costs the library as long as anything of it is unread (measured), however little it said."""

MEMBER_BYTES: Final = (WINDOW_SLICES + SETS_PER_MESSAGE + 1) * FRAME_BYTES
"""What may wait from a member before its connection is held: a window of slices and a report that comes whole."""

MESSAGE_BYTES: Final = SETS_PER_MESSAGE * FRAME_BYTES + HEADER_BYTES
"""The largest message that the protocol knows."""

HANDSHAKE_BYTES: Final = KIB
"""What connecting takes on the wire, beside messages: more than any mechanism that is used here."""

UNPROVEN_BYTES: Final = 16 * KIB
"""More than the library reads from a connection whose handshake it then refuses."""

SETTLED_S: Final = 0.05
SETTLED_DRAINS: Final = 2
"""A message is taken for unfinished when it is so old and the socket was seen empty so often since: what is whole has
been handed over by then."""

_FRAME_HEAD: Final = 2
_LARGE_FRAME_HEAD: Final = 9
_CURVE_BYTES: Final = 33
"""Name of the command, nonce, authenticator and flags that CURVE puts around each frame."""


def wire_bytes(sizes: Iterable[int], *, encrypted: bool) -> int:
    """What a message with frames of these sizes took on the wire, by ZMTP 3."""
    around = _CURVE_BYTES if encrypted else 0
    bodies = [size + around for size in sizes]
    return sum(body + (_FRAME_HEAD if body < 256 else _LARGE_FRAME_HEAD) for body in bodies)


@dataclass(frozen=True, kw_only=True)
class BacklogLimits:
    """What is let in. strangers: connections that were not welcomed yet; message_bytes: a member's largest message."""

    strangers: int
    message_bytes: int = MESSAGE_BYTES


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """How much had come in at a time; the unfinished message began before it."""

    taken: int
    at: float
    drains: int


@dataclass(kw_only=True, eq=False)
class Account:
    """One connection. `read` is for whoever takes messages, the rest is written by whoever watches."""

    address: str
    serial: int
    is_member: bool = False
    taken: int = 0
    """Bytes that the library has read from the connection."""
    read_bytes: int = 0
    """Wire bytes of the messages that were taken from it."""
    largest: int = 0
    """Of the largest of these."""
    mark: _Mark | None = None
    is_cut: bool = False
    is_held: bool = False

    @property
    def waiting(self) -> int:
        return self.taken - self.read_bytes

    @property
    def is_being_answered(self) -> bool:
        """It has said something, and all of it was taken: a hello, perhaps, whose welcome is on its way."""
        return self.read_bytes > 0 and self.waiting <= HANDSHAKE_BYTES

    def read(self, size_bytes: int) -> None:
        """A message of so many wire bytes was taken."""
        self.read_bytes += size_bytes
        self.largest = max(self.largest, size_bytes)


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A connection to be cut, and why, in words."""

    account: Account
    reason: str


class UnreadRemains:
    """What strangers left behind, by address, until the socket has been emptied.

    accepted: where keys are required, how many handshakes of an address were accepted so far, of all for an empty one.
    Whoever has no listed key leaves nothing behind: no message of theirs gets into the socket.
    """

    def __init__(self, accepted: Callable[[str], int] | None = None) -> None:
        self._left: Counter[str] = Counter()
        self._drains = 0
        self._accepted = accepted
        self._counted: Counter[str] = Counter()

    def gone(self, account: Account, drains: int) -> None:
        """A connection has ended with this much unread."""
        self.look(drains)
        if not account.is_member and self._may_have_sent(account):
            self._left[account.address] += account.waiting + CONNECTION_BYTES
            self._drains = drains

    def _may_have_sent(self, account: Account) -> bool:
        """With keys, nobody can say which connection had a listed one if it sent little; how many had is known."""
        if self._accepted is None or account.taken > UNPROVEN_BYTES:
            return True
        if self._counted[account.address] >= self._accepted(account.address):
            return False
        self._counted[account.address] += 1
        return True

    def look(self, drains: int) -> None:
        """Forget it all once the socket was seen empty often enough since the last one went."""
        if self._left and drains >= self._drains + SETTLED_DRAINS:
            self._left.clear()

    def __bool__(self) -> bool:
        return bool(self._left)

    def is_too_much(self, address: str) -> bool:
        """Of one address: nobody else from there is listened to for now."""
        return self._left.get(address, 0) > UNREAD_BYTES

    @property
    def is_far_too_much(self) -> bool:
        """Of all: nobody new is let in for now."""
        return self._left.total() > 4 * UNREAD_BYTES


def must_hold(account: Account) -> bool:
    """Whether nothing more is to come from a member for now: from its bound on, until half of that has been read.
    Not once it is cut: the end of a connection has to be answered."""
    most = MEMBER_BYTES // 2 if account.is_held else MEMBER_BYTES
    return account.is_member and not account.is_cut and account.waiting > most


def excesses(
    accounts: Sequence[Account], bounds: BacklogLimits, remains: UnreadRemains, *, now: float, drains: int
) -> list[Excess]:
    """Whose connections must end, by their counts as they stand. drains: how often the socket was seen empty."""
    remains.look(drains)
    accounts = [account for account in accounts if not account.is_cut]
    strangers = [account for account in accounts if not account.is_member]
    found = [one for account in accounts if (one := _alone(account, bounds, now=now, drains=drains)) is not None]
    reason = "others of this address left more than can be read"
    found += [
        Excess(account=one, reason=reason)
        for one in strangers
        if remains.is_too_much(one.address) and not one.is_being_answered
    ]
    cut = {id(one.account) for one in found}
    left = [account for account in strangers if id(account) not in cut]
    return [*found, *_together(left), *_crowd(left, bounds)]


def _alone(account: Account, bounds: BacklogLimits, *, now: float, drains: int) -> Excess | None:
    if account.largest > bounds.message_bytes:  # it was whole before anybody looked
        return Excess(account=account, reason=f"a message of {account.largest} bytes, {bounds.message_bytes} may be")
    if not account.is_member and account.waiting > STRANGER_BYTES:
        return Excess(account=account, reason=f"{account.waiting} bytes wait to be read, {STRANGER_BYTES} may")
    if not account.is_member or account.waiting <= bounds.message_bytes:
        account.mark = None
        return None
    mark = account.mark
    if mark is None:
        account.mark = _Mark(taken=account.taken, at=now, drains=drains)
    elif now >= mark.at + SETTLED_S and drains >= mark.drains + SETTLED_DRAINS:
        if mark.taken - account.read_bytes > bounds.message_bytes:
            size = account.waiting
            return Excess(account=account, reason=f"a message of more than {size} bytes, {bounds.message_bytes} may be")
        account.mark = _Mark(taken=account.taken, at=now, drains=drains)
    return None


def _together(strangers: Sequence[Account]) -> list[Excess]:
    """The largest go until the rest is small enough."""
    total, found = sum(account.waiting for account in strangers), []
    for account in sorted(strangers, key=lambda one: one.waiting, reverse=True):
        if total <= STRANGERS_BYTES:
            break
        total -= account.waiting
        found.append(Excess(account=account, reason=f"strangers have more than {STRANGERS_BYTES} bytes waiting"))
    return found


def _crowd(strangers: Sequence[Account], bounds: BacklogLimits) -> list[Excess]:
    """Too many strangers: the oldest of the address that most of them come from go."""
    surplus = len(strangers) - bounds.strangers
    if surplus <= 0:
        return []
    crowds = Counter(account.address for account in strangers)
    order = sorted(strangers, key=lambda one: (-crowds[one.address], one.serial))
    reason = f"{len(strangers)} connections that were not welcomed, {bounds.strangers} may be"
    return [Excess(account=account, reason=reason) for account in order[:surplus]]
