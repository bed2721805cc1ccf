"""All transfers of a process in one direction: how peers share credit and bandwidth so that memory stays bounded.

When receiving (`Intake`), credit limits what may arrive; when sending (`Dispatch`), bytes in flight limit what the
socket holds. Each is limited over all peers together and by the window for each peer. Pure bookkeeping: both return the
messages to send. A peer that stops answering keeps its share until `drop`; the caller must notice it, because there is
no clock here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from protocol.contracts import Buffer
from protocol.errors import BadChecksum, BadTransfer, LocalProtocolError
from protocol.limits import IN_FLIGHT_BYTES, SLICE_BYTES, TRANSFERS_PER_PEER
from protocol.naming import PendingDigest, digest_at_once
from protocol.signals import Grant, Slice
from protocol.transfer import Fate, IncomingTransfer, OutgoingTransfer, Span

T = TypeVar("T")


@dataclass(frozen=True)
class To(Generic[T]):
    """Something for one peer."""

    peer: str
    what: T


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """The fate of a slice, whether its payload is now complete and verified, and the resulting grants, for any
    peers."""

    fate: Fate
    complete: bool = False
    grants: tuple[To[Grant], ...] = ()


class Intake:
    """All incoming payloads. A peer's payloads are received one after another, in the order of their offers.

    digest: hashes a slice, at once or in another thread; in the latter case it must bound the slices that wait.
    """

    def __init__(
        self,
        *,
        capacity_bytes: int = IN_FLIGHT_BYTES,
        slice_bytes: int = SLICE_BYTES,
        digest: Callable[[Buffer], PendingDigest] = digest_at_once,
    ) -> None:
        _check_capacity(capacity_bytes, slice_bytes)
        self._capacity = capacity_bytes
        self._slice = slice_bytes
        self._digest = digest
        self._lines: dict[str, list[IncomingTransfer]] = {}

    @property
    def credit_bytes(self) -> int:
        """Bytes that may be on their way to us; never above the capacity."""
        return sum(incoming.credit_bytes for line in self._lines.values() for incoming in line)

    def received_bytes(self, peer: str, transfer: str) -> int | None:
        """Return the bytes received by a transfer; None if there is no such transfer."""
        incoming = self._find(peer, transfer)
        return None if incoming is None else incoming.received

    def offered(self, peer: str, transfer: str, size_bytes: int, held: Iterable[Buffer] = ()) -> tuple[To[Grant], ...]:
        """Accept a payload that a peer offers. held: its first whole slices, if we already have them.

        A transfer that is offered again continues; if it made no progress since the last offer, it restarts after the
        last slice held.
        """
        incoming = self._find(peer, transfer)
        if incoming is not None:
            if incoming.size_bytes != size_bytes:
                raise BadTransfer(
                    f"{transfer[:16]}… offered with {size_bytes} bytes, before with {incoming.size_bytes}"
                )
            awaited = (To(peer, incoming.offered_again()),) if incoming.credit_bytes else ()
            return (*awaited, *self._spread())
        incoming = IncomingTransfer(
            transfer=transfer, size_bytes=size_bytes, slice_bytes=self._slice, digest=self._digest
        )
        incoming.resume(held)
        line = self._lines.setdefault(peer, [])
        if len(line) == TRANSFERS_PER_PEER:
            del line[0]
        line.append(incoming)
        return self._spread()

    def arrived(self, peer: str, piece: Slice) -> Arrival:
        """Handle a slice. Keep its bytes if, and only if, its fate is TAKEN. BadChecksum ends the transfer."""
        incoming = self._find(peer, piece.transfer)
        if incoming is None:
            return Arrival(fate=Fate.UNASKED)
        try:
            fate = incoming.take(piece)
        except BadChecksum:
            self._forget(peer, incoming)
            raise
        if fate is Fate.GAP:
            complaint = (To(peer, incoming.grant(again=True)),) if incoming.should_complain() else ()
            return Arrival(fate=fate, grants=complaint)
        if fate is Fate.UNASKED:
            return Arrival(fate=fate)
        if incoming.is_complete:
            self._forget(peer, incoming)
        following = self._spread()
        if all(one.what.transfer != piece.transfer or one.peer != peer for one in following):
            following = (To(peer, incoming.grant()), *following)
        return Arrival(fate=fate, complete=incoming.is_complete, grants=following)

    def drop(self, peer: str, transfer: str | None = None) -> tuple[To[Grant], ...]:
        """Give up one transfer of a peer, or all; its credit goes to others."""
        line = self._lines.get(peer, [])
        for incoming in [one for one in line if transfer in (None, one.transfer)]:
            self._forget(peer, incoming)
        return self._spread()

    def _find(self, peer: str, transfer: str) -> IncomingTransfer | None:
        return next((one for one in self._lines.get(peer, ()) if one.transfer == transfer), None)

    def _forget(self, peer: str, incoming: IncomingTransfer) -> None:
        line = self._lines[peer]
        line.remove(incoming)
        if not line:
            del self._lines[peer]

    def _spread(self) -> tuple[To[Grant], ...]:
        """Share free credit slice by slice among the first transfer of every peer, oldest peers first."""
        room, extended, spreading = self._capacity - self.credit_bytes, dict[str, IncomingTransfer](), True
        while spreading:
            spreading = False
            for peer, line in self._lines.items():
                cost = line[0].next_credit_bytes
                if 0 < cost <= room:
                    line[0].extend()
                    room -= cost
                    extended[peer] = line[0]
                    spreading = True
        return tuple(To(peer, incoming.grant()) for peer, incoming in extended.items())


class Dispatch:
    """All outgoing payloads."""

    def __init__(self, *, capacity_bytes: int = IN_FLIGHT_BYTES, slice_bytes: int = SLICE_BYTES) -> None:
        _check_capacity(capacity_bytes, slice_bytes)
        self._capacity = capacity_bytes
        self._slice = slice_bytes
        self._open: dict[tuple[str, str], OutgoingTransfer] = {}

    @property
    def in_flight_bytes(self) -> int:
        """Bytes passed to the socket but not yet acknowledged; never above the capacity."""
        return sum(outgoing.in_flight_bytes for outgoing in self._open.values())

    def offer(self, peer: str, transfer: str, size_bytes: int) -> None:
        """Note that a message announcing this payload is being sent (or sent again) to the peer."""
        if (peer, transfer) not in self._open:
            outgoing = OutgoingTransfer(transfer=transfer, size_bytes=size_bytes, slice_bytes=self._slice)
            self._open[peer, transfer] = outgoing

    def granted(self, peer: str, grant: Grant) -> tuple[To[Span], ...]:
        """Handle a grant: return what to read and send now, to any peers. A grant for an unknown transfer changes
        nothing: its receiver still wants the message and will be offered it again."""
        outgoing = self._open.get((peer, grant.transfer))
        if outgoing is not None:
            outgoing.granted(grant)
            if outgoing.is_done:
                del self._open[peer, grant.transfer]
        return self._pump()

    def drop(self, peer: str, transfer: str | None = None) -> tuple[To[Span], ...]:
        """End one transfer to a peer, or all; others may use its share.

        Call this when the peer is gone or sent a new hello, when it cancels, and when its heartbeat has the message
        that announced the payload: the last receipt may have been lost, and nothing else would free its share.
        """
        for key in [key for key in self._open if key[0] == peer and transfer in (None, key[1])]:
            del self._open[key]
        return self._pump()

    def _pump(self) -> tuple[To[Span], ...]:
        """Return the slices that credit and capacity allow, one per transfer in turn."""
        room, spans, pumping = self._capacity - self.in_flight_bytes, list[To[Span]](), True
        while pumping:
            pumping = False
            for (peer, _), outgoing in self._open.items():
                if room < self._slice:
                    break
                span = outgoing.next_span()
                if span is not None:
                    spans.append(To(peer, span))
                    room -= span.stop - span.start
                    pumping = True
        return tuple(spans)


def _check_capacity(capacity_bytes: int, slice_bytes: int) -> None:
    if capacity_bytes < slice_bytes:
        raise LocalProtocolError(f"a capacity of {capacity_bytes} bytes cannot hold one slice of {slice_bytes}")
