"""Decides how many bytes of a peer may wait unread, and which connections exceed that. Pure accounting of counts.

The socket library delivers a message only when it is complete and does not limit the number of its frames, so a message
that never ends would use up all memory. The unread bytes of a connection are known from outside: bytes that TCP
delivered to the library, minus the wire bytes of the messages read from it. Honest peers keep this number small: a
stranger sends hello and waits, and no message exceeds the protocol's limits. More than that is not a matter of speed,
and the connection may be cut. A member whose messages are read slowly may repeat reports that were requested again; if
that becomes too much, its connection is held (not cut) until they are read, and nothing is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.limits import FRAME_BYTES, HEADER_BYTES, KIB, MIB, SETS_PER_MESSAGE, WINDOW_SLICES

STRANGER_BYTES: Final = 256 * KIB
"""Most unread bytes of a peer that was not welcomed. A hello has less than 2 KiB; the rest is for peers that send many
small messages and are read slowly. An empty frame is two bytes on the wire and 64 in memory."""

STRANGER_PACKET_BYTES: Final = 8 * KIB
"""Largest packet of a peer that was not welcomed; the kernel drops larger ones. An honest stranger sends only hellos.
A flood on the same machine, in packets of 64 KiB, can thus not outrun the guard on busy processors."""

STRANGER_DROPS: Final = 2
"""Dropped packets after which such a peer is cut, to begin anew. One may be a duplicate on a bad line."""

STRANGERS_BYTES: Final = MIB
"""Most unread bytes of all strangers together: 32 MiB of memory if all of it is empty frames."""

UNREAD_BYTES: Final = 4 * MIB
"""Most unread bytes in the socket from disconnected strangers of one address; for all addresses together, four times as
much. Beyond it, strangers from that address are cut, then all newcomers are, until the socket has been emptied: many
strangers that connect, send and disconnect can leave more behind than one that stays."""

CONNECTION_BYTES: Final = 48 * KIB
"""Memory (measured) that the library needs for a connection as long as anything of it is unread, however little."""

MEMBER_BYTES: Final = (WINDOW_SLICES + SETS_PER_MESSAGE + 1) * FRAME_BYTES
"""Most unread bytes of a member before its connection is held: a window of slices and a report in one message."""

MESSAGE_BYTES: Final = SETS_PER_MESSAGE * FRAME_BYTES + HEADER_BYTES
"""The largest message of the protocol."""

HANDSHAKE_BYTES: Final = KIB
"""Bytes of a handshake on the wire, besides messages: more than any mechanism in use needs."""

UNPROVEN_BYTES: Final = 16 * KIB
"""More than the library reads from a connection whose handshake it then refuses."""

SETTLED_S: Final = 0.05
SETTLED_DRAINS: Final = 2
"""A message counts as unfinished after this many seconds and this many times that the socket was seen empty: a complete
one has been delivered by then."""

CHECK_MS: Final = 20
"""Milliseconds between two checks; what a peer can send in between comes on top of every limit."""

NEWCOMERS_CHECK_MS: Final = 3
NEWCOMER_S: Final = 1.0
"""The interval while a stranger has been connected for less than `NEWCOMER_S`: on loopback a peer sends a megabyte per
millisecond."""

_FRAME_HEAD: Final = 2
_LARGE_FRAME_HEAD: Final = 9
_CURVE_BYTES: Final = 33
"""Command name, nonce, authenticator and flags that CURVE adds to each frame."""


def wire_bytes(sizes: Iterable[int], *, encrypted: bool) -> int:
    """Return the bytes on the wire, by ZMTP 3, of a message with frames of these sizes."""
    around = _CURVE_BYTES if encrypted else 0
    bodies = [size + around for size in sizes]
    return sum(body + (_FRAME_HEAD if body < 256 else _LARGE_FRAME_HEAD) for body in bodies)


@dataclass(frozen=True, kw_only=True)
class BacklogLimits:
    """strangers: most connections that were not welcomed yet; message_bytes: a member's largest message."""

    strangers: int
    message_bytes: int = MESSAGE_BYTES


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """Bytes received by a point in time; the unfinished message began before it."""

    taken: int
    at: float
    drains: int


@dataclass(kw_only=True, eq=False)
class Account:
    """The counts of one connection. The thread that reads messages calls `read`; the guard thread writes the rest."""

    address: str
    serial: int
    since: float = 0.0
    """When it was accepted."""
    is_member: bool = False
    taken: int = 0
    """Bytes that the library has read from the connection."""
    read_bytes: int = 0
    """Wire bytes of the messages that were read from it."""
    largest: int = 0
    """Wire bytes of the largest message read."""
    dropped: int = 0
    """Packets that the kernel dropped; counted for strangers only."""
    mark: _Mark | None = None
    is_cut: bool = False
    is_held: bool = False

    @property
    def waiting(self) -> int:
        return self.taken - self.read_bytes

    @property
    def is_being_answered(self) -> bool:
        """Whether it sent something and all of it was read: perhaps a hello whose welcome is on its way."""
        return self.read_bytes > 0 and self.waiting <= HANDSHAKE_BYTES

    def read(self, size_bytes: int) -> None:
        """Count a message that was read. size_bytes: on the wire."""
        self.read_bytes += size_bytes
        self.largest = max(self.largest, size_bytes)


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A connection to be cut, and the reason in words."""

    account: Account
    reason: str


class UnreadRemains:
    """Unread bytes that disconnected strangers left behind, by address, until the socket has been emptied.

    accepted: with keys, returns how many handshakes of an address were accepted so far (empty address: of all). A peer
    without a listed key leaves nothing behind: none of its messages gets into the socket.
    """

    def __init__(self, accepted: Callable[[str], int] | None = None) -> None:
        self._left: Counter[str] = Counter()
        self._drains = 0
        self._accepted = accepted
        self._counted: Counter[str] = Counter()

    def gone(self, account: Account, drains: int) -> None:
        """Count what an ended connection left unread."""
        self.check(drains)
        if not account.is_member and self._may_have_sent(account):
            self._left[account.address] += account.waiting + CONNECTION_BYTES
            self._drains = drains

    def _may_have_sent(self, account: Account) -> bool:
        """With keys and few bytes sent, it is unknown which connections had a listed key, only how many had."""
        if self._accepted is None or account.taken > UNPROVEN_BYTES:
            return True
        if self._counted[account.address] >= self._accepted(account.address):
            return False
        self._counted[account.address] += 1
        return True

    def check(self, drains: int) -> None:
        """Forget everything once the socket was seen empty often enough since the last connection ended."""
        if self._left and drains >= self._drains + SETTLED_DRAINS:
            self._left.clear()

    def __bool__(self) -> bool:
        return bool(self._left)

    def is_too_much(self, address: str) -> bool:
        """Whether strangers of this address are cut for now."""
        return self._left.get(address, 0) > UNREAD_BYTES

    @property
    def is_far_too_much(self) -> bool:
        """Whether no new connection is accepted for now, from any address."""
        return self._left.total() > 4 * UNREAD_BYTES


def must_hold(account: Account) -> bool:
    """Whether to hold a member's connection: from `MEMBER_BYTES` unread until only half of that is. Not once it is cut:
    the end of a connection has to be answered."""
    most = MEMBER_BYTES // 2 if account.is_held else MEMBER_BYTES
    return account.is_member and not account.is_cut and account.waiting > most


def is_inconspicuous(account: Account, bounds: BacklogLimits) -> bool:
    """Whether neither `excesses` nor `must_hold` would do anything about this account: true of nearly every member at
    nearly every check, so that checking a thousand of them costs little."""
    unread, most = account.taken - account.read_bytes, bounds.message_bytes
    few = unread <= most and unread <= MEMBER_BYTES and account.largest <= most
    return few and account.is_member and not account.is_held and account.mark is None


def next_check_ms(accounts: Iterable[Account], *, began: float, ended: float) -> int:
    """Return how long to wait after a check: less while there are newcomers, but checking takes at most a fifth of the
    time. began, ended: of the check."""
    if not any(not account.is_member and began < account.since + NEWCOMER_S for account in accounts):
        return CHECK_MS
    return min(CHECK_MS, max(NEWCOMERS_CHECK_MS, round(4_000 * (ended - began))))


def excesses(
    accounts: Sequence[Account], bounds: BacklogLimits, remains: UnreadRemains, *, now: float, drains: int
) -> list[Excess]:
    """Return the connections to cut, by their current counts. drains: how often the socket was seen empty."""
    remains.check(drains)
    accounts = [account for account in accounts if not account.is_cut]
    strangers = [account for account in accounts if not account.is_member]
    found = [one for account in accounts if (one := _alone(account, bounds, now=now, drains=drains)) is not None]
    reason = "other connections from this address have more than can be read waiting"
    found += [
        Excess(account=one, reason=reason)
        for one in strangers
        if remains.is_too_much(one.address) and not one.is_being_answered
    ]
    cut = {id(one.account) for one in found}
    left = [account for account in strangers if id(account) not in cut]
    return [*found, *_together(left), *_crowd(left, bounds)]


def _alone(account: Account, bounds: BacklogLimits, *, now: float, drains: int) -> Excess | None:
    if account.largest > bounds.message_bytes:  # it was complete before the first check
        return Excess(
            account=account, reason=f"a message of {account.largest} bytes, at most {bounds.message_bytes} are allowed"
        )
    if not account.is_member and account.waiting > STRANGER_BYTES:
        return Excess(
            account=account, reason=f"{account.waiting} bytes wait to be read, at most {STRANGER_BYTES} are allowed"
        )
    if not account.is_member and account.dropped >= STRANGER_DROPS:
        return Excess(account=account, reason=f"packets of more than {STRANGER_PACKET_BYTES} bytes before a welcome")
    if not account.is_member or account.waiting <= bounds.message_bytes:
        account.mark = None
        return None
    mark = account.mark
    if mark is None:
        account.mark = _Mark(taken=account.taken, at=now, drains=drains)
    elif now >= mark.at + SETTLED_S and drains >= mark.drains + SETTLED_DRAINS:
        if mark.taken - account.read_bytes > bounds.message_bytes:
            size = account.waiting
            return Excess(
                account=account,
                reason=f"a message of more than {size} bytes, at most {bounds.message_bytes} are allowed",
            )
        account.mark = _Mark(taken=account.taken, at=now, drains=drains)
    return None


def _together(strangers: Sequence[Account]) -> list[Excess]:
    """Cut the connections with most unread bytes until the rest is within the limit."""
    total, found = sum(account.waiting for account in strangers), []
    for account in sorted(strangers, key=lambda one: one.waiting, reverse=True):
        if total <= STRANGERS_BYTES:
            break
        total -= account.waiting
        found.append(
            Excess(
                account=account,
                reason=f"connections that were not admitted have more than {STRANGERS_BYTES} bytes waiting",
            )
        )
    return found


def _crowd(strangers: Sequence[Account], bounds: BacklogLimits) -> list[Excess]:
    """If there are too many strangers, cut the oldest ones of the address that most of them come from."""
    surplus = len(strangers) - bounds.strangers
    if surplus <= 0:
        return []
    crowds = Counter(account.address for account in strangers)
    order = sorted(strangers, key=lambda one: (-crowds[one.address], one.serial))
    reason = f"{len(strangers)} connections that were not admitted, at most {bounds.strangers} are allowed"
    return [Excess(account=account, reason=reason) for account in order[:surplus]]
