"""The transfer of one payload in slices: the sender's and the receiver's rules, over a link that may fail.

The payload's name identifies its bytes (`naming`), so a transfer has no session: a sender with equal bytes can resume
it after a broken connection or a restart. The receiver decides. It gives credit in cumulative grants, accepts slices in
order, ignores repeats, and asks the sender to restart at its position when something is missing. No clock: a stalled
transfer resumes with the next offer, which the heartbeat's `want` causes. This file must not know peers, caps over
several transfers (that is `traffic`), or where bytes are kept.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from protocol.contracts import Buffer
from protocol.errors import BadChecksum, BadTransfer, LocalProtocolError
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import PendingDigest, cut, digest_at_once, name_of
from protocol.signals import Grant, Slice


@dataclass(frozen=True, kw_only=True)
class Span:
    """Bytes [start, stop) of a payload, to be read and sent as one slice."""

    transfer: str
    start: int
    stop: int

    def filled(self, data: Buffer) -> Slice:
        return Slice(transfer=self.transfer, offset=self.start, data=memoryview(data).cast("B"))


class Fate(enum.Enum):
    """What became of a slice."""

    TAKEN = enum.auto()  # keep its bytes at its offset
    REPEATED = enum.auto()  # held already
    GAP = enum.auto()  # something before it is missing; both will be sent again
    UNASKED = enum.auto()  # no credit for it: it was meant for this receiver before its restart


class OutgoingTransfer:
    """The sending side. 0 <= acked <= sent <= size; a grant with `again` may move both back."""

    def __init__(self, *, transfer: str, size_bytes: int, slice_bytes: int = SLICE_BYTES) -> None:
        self.transfer = transfer
        self.size_bytes = size_bytes
        self.acked = 0
        self.sent = 0
        self._until = 0
        self._slice = slice_bytes

    @property
    def in_flight_bytes(self) -> int:
        return self.sent - self.acked

    @property
    def is_done(self) -> bool:
        """Whether the receiver has confirmed every byte."""
        return self.acked == self.size_bytes

    def granted(self, grant: Grant) -> None:
        """Apply a grant. An outdated receipt changes nothing; an outdated `again` only causes repeated slices."""
        for name, value in (("received", grant.received), ("until", grant.until)):
            if value > self.size_bytes or (value % self._slice and value != self.size_bytes):
                raise BadTransfer(f"grant.{name} is {value}, not a slice boundary within {self.size_bytes} bytes")
        if grant.until - grant.received > WINDOW_SLICES * self._slice:
            raise BadTransfer(f"a grant of {grant.until - grant.received} bytes exceeds {WINDOW_SLICES} slices")
        if grant.again:
            self.acked = self.sent = grant.received
            self._until = grant.until
        else:
            self.acked = max(self.acked, grant.received)
            self.sent = max(self.sent, self.acked)
            self._until = max(self._until, grant.until)

    def next_span(self) -> Span | None:
        """Return the next slice that credit allows and count it as sent; None if there is none."""
        if self.sent >= self._until:
            return None
        start, self.sent = self.sent, min(self.sent + self._slice, self.size_bytes)
        return Span(transfer=self.transfer, start=start, stop=self.sent)


class IncomingTransfer:
    """The receiving side. `received` bytes are held without a gap; 0 <= received <= until <= size.

    digest: hashes a slice, possibly in another thread; the result is waited for when the last slice has arrived.
    """

    def __init__(
        self,
        *,
        transfer: str,
        size_bytes: int,
        slice_bytes: int = SLICE_BYTES,
        digest: Callable[[Buffer], PendingDigest] = digest_at_once,
    ) -> None:
        self.transfer = transfer
        self.size_bytes = size_bytes
        self.received = 0
        self.until = 0
        self._slice = slice_bytes
        self._digest = digest
        self._digests: list[PendingDigest] = []
        self._begun = False
        self._moved = False
        self._complained_at = -1

    def resume(self, held: Iterable[Buffer]) -> None:
        """Start after slices held since before a restart, given in order; the payload's last slice must be left out."""
        if self.received or self.until:
            raise LocalProtocolError("a transfer can be resumed only before it has begun")
        for piece in (part for whole in held for part in cut(whole, self._slice)):
            self.received += piece.nbytes
            if self.received >= self.size_bytes or piece.nbytes != self._slice:
                raise LocalProtocolError(f"cannot resume at {self.received} of {self.size_bytes}: not whole slices")
            self._digests.append(self._digest(piece))
        self.until = self.received

    @property
    def is_complete(self) -> bool:
        return self.received == self.size_bytes

    @property
    def credit_bytes(self) -> int:
        """Bytes that may be on their way to us."""
        return self.until - self.received

    @property
    def next_credit_bytes(self) -> int:
        """Bytes of one more slice of credit; 0 if the window is full or everything is granted."""
        if self.credit_bytes > (WINDOW_SLICES - 1) * self._slice:
            return 0
        return min(self._slice, self.size_bytes - self.until)

    def extend(self) -> None:
        """Add credit for one more slice; `grant` returns the message for the sender."""
        self.until += self.next_credit_bytes

    def grant(self, *, again: bool = False) -> Grant:
        """Return the current receipt and credit. The first one has `again`: the sender may still have the state from
        before our restart."""
        again, self._begun = again or not self._begun, True
        return Grant(transfer=self.transfer, received=self.received, until=self.until, again=again)

    def offered_again(self) -> Grant:
        """Answer a repeated offer: continue or, if nothing arrived since the last offer, restart at `received`."""
        moved, self._moved = self._moved, False
        return self.grant(again=not moved)

    def take(self, piece: Slice) -> Fate:
        """Handle a slice. BadTransfer if no honest sender sends such a slice; BadChecksum if the complete payload is
        wrong."""
        stop = piece.offset + piece.data.nbytes
        if piece.offset % self._slice or stop != min(piece.offset + self._slice, self.size_bytes):
            raise BadTransfer(f"a slice of {piece.data.nbytes} bytes at {piece.offset} of {self.size_bytes}")
        if stop <= self.received:
            return Fate.REPEATED
        if stop > self.until:
            return Fate.UNASKED
        if piece.offset > self.received:
            return Fate.GAP
        self._digests.append(self._digest(piece.data))
        self.received = stop
        self._moved = True
        if self.is_complete and (name := name_of(digest() for digest in self._digests)) != self.transfer:
            raise BadChecksum(f"transfer {self.transfer[:16]}… came as {name[:16]}…")
        return Fate.TAKEN

    def should_complain(self) -> bool:
        """After a gap: whether to request a restart at once. Only once per position, or the answers would pile up."""
        first, self._complained_at = self._complained_at != self.received, self.received
        return first
