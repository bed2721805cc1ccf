"""Messages of one connection: decoding and encoding, the rules of the conversation, and large payloads in slices.

Pure: no socket, no clock. A message that only offers its payloads is passed on when they have arrived, never before;
`wants` decides whether to fetch them, and a message whose payloads are declined is only `announced`. Messages that
cannot be sent yet wait in order; a lost line empties the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.codec import decode, encode, offers, require_complete
from protocol.contracts import Buffer
from protocol.conversation import Conversation, PeerState
from protocol.conversation import Freshness as Judged
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import ORDERS, REPORTS, Cancel, Error, Grant, Message, Side, Slice, Step
from protocol.tensors import TensorSet
from protocol.traffic import Dispatch, Intake, To
from protocol.transfer import Fate, Span

PEER = "peer"


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A message with its encoded frames."""

    message: Message
    frames: tuple[Buffer, ...]


class _Pending:
    """A message that waits for its payloads: buffers by transfer, shared with other messages of the same bytes."""

    def __init__(self, message: Message, buffers: dict[str, bytearray]) -> None:
        self.message = message
        self.buffers = buffers
        self.missing = set(buffers)

    def filled(self) -> Message:
        """Return the message with all its payloads. LocalProtocolError while one is missing."""
        if self.missing:
            raise LocalProtocolError(f"{self.message.KIND}: transfers {sorted(self.missing)} have not arrived")
        values: dict[str, Any] = {name: getattr(self.message, name) for name, _ in self.message.CONTRACTS}
        for name, value in values.items():
            if isinstance(value, TensorSet) and value.data is None and value.transfer in self.buffers:
                values[name] = value.filled(self.buffers[value.transfer])
        return type(self.message)(**values)


class MessageStream:
    """One side's view of a conversation. `send` and `receive` fill `outbound`; the shell empties it."""

    def __init__(self, wants: Callable[[Message], bool], role: Side = Side.PARTICIPANT) -> None:
        self._wants = wants
        self._conversation = Conversation(role)
        self._intake = Intake()
        self._dispatch = Dispatch()
        self._pending: list[_Pending] = []
        self._kept: dict[str, bytearray] = {}
        """Buffers of payloads that were incomplete at the latest hello; `_kept_bytes` holds how much has arrived."""
        self._kept_bytes: dict[str, int] = {}
        self._offered: dict[str, memoryview] = {}
        self.outbound: deque[Outgoing] = deque()
        self.refused: str = ""
        """Why the peer's last message was refused; empty if it was accepted."""
        self.announced: Message | None = None
        """The peer's last message if its payloads were declined: they will not arrive."""
        self.moved = False
        """Whether the last message advanced a payload: an offer that was accepted, or a slice."""

    def send(self, message: Message) -> None:
        """Queue a message. Its large payloads are offered, and sent once they are granted; those of a report replace
        the previous report's, which are no longer needed."""
        if message.KIND == "hello":
            self._start_afresh()
        self._conversation.send(message)
        large = _large_sets(message)
        if message.KIND in REPORTS:
            self._withdraw_offers(keep=large.keys())
        for transfer, data in large.items():
            self._offered[transfer] = data
            self._dispatch.offer(PEER, transfer, data.nbytes)
        self._queue(message)

    def receive(self, frames: Sequence[Buffer]) -> list[Message]:
        """Check a received message; return the messages that are now complete. A peer's error is answered, not raised.

        The caller must act on the result before the next call: which payloads to fetch depends on it.
        """
        self.refused, self.announced, self.moved = "", None, False
        try:
            message = decode(frames)
            if self._conversation.receive(message) is Judged.STALE:
                return []
            complete = self._take(message)
        except RemoteProtocolError as fault:
            self.refused = str(fault)
            if self._conversation.state in (PeerState.MEMBER, PeerState.FINISHED):
                self.send(Error.of(fault))
            return []
        for one in complete:
            require_complete(one)
        return complete

    def lost(self) -> None:
        """The line broke: drop the queue. Slices of payloads that have arrived are kept."""
        self.outbound.clear()
        self._release()

    def release(self) -> None:
        """Drop the payload of the latest report: the coordinator has it."""
        self._release()

    def _release(self) -> None:
        self._dispatch.drop(PEER)
        self._offered.clear()

    def _withdraw_offers(self, keep: Collection[str]) -> None:
        for transfer in [one for one in self._offered if one not in keep]:
            del self._offered[transfer]
            self._send(self._dispatch.drop(PEER, transfer))

    def _start_afresh(self) -> None:
        """Reset all transfers: everything is offered again after a hello. Slices that arrived are kept for the same
        payload."""
        self._release()
        if self._pending:
            unfinished = {name: one.buffers[name] for one in self._pending for name in one.missing}
            received = {name: self._intake.received_bytes(PEER, name) or 0 for name in unfinished}
            self._kept, self._kept_bytes = unfinished, received
            self._pending.clear()
        self._intake.drop(PEER)

    def _take(self, message: Message) -> list[Message]:
        if isinstance(message, Grant):
            self._send(self._dispatch.granted(PEER, message))
            return []
        if isinstance(message, Slice):
            return self._store(message)
        if isinstance(message, Cancel):
            self._cancel(message)
            return []
        if not offers(message):
            return [message]
        if self._wants(message):
            self._fetch(message)
        else:
            self.announced = message
        return []

    def _fetch(self, message: Message) -> None:
        """Accept offers. A newer step supersedes an older one that is still arriving, in whatever order they come:
        payloads arrive one after another, and one that is no longer sent would block the line."""
        known = next((one for one in self._pending if one.message == message), None)
        is_new = known is None
        if known is None:
            place = _place(message)
            steps = [] if place is None else [one for one in self._pending if _place(one.message) is not None]
            if any((_place(one.message) or place) > place for one in steps if place is not None):
                return
            for old in steps:
                self._withdraw(old)
            sizes = {offer.transfer: offer.size_bytes for offer in offers(message) if offer.transfer is not None}
            known = _Pending(message, {name: self._buffer(name, size) for name, size in sizes.items()})
        grants: list[To[Grant]] = []
        for offer in offers(message):
            if offer.transfer in known.missing and offer.transfer is not None:
                held = known.buffers[offer.transfer][: self._kept_bytes.pop(offer.transfer, 0)]
                grants += self._intake.offered(PEER, offer.transfer, offer.size_bytes, (held,) if held else ())
        if is_new:  # only now: an offer that contradicts an earlier one of the same name is refused
            self._pending.append(known)
            self.moved = True
        self._grant(grants)

    def _buffer(self, transfer: str, size_bytes: int) -> bytearray:
        """Return the buffer of a payload: one for all messages that wait for it, because slices arrive only once."""
        under_way = (one.buffers[transfer] for one in self._pending if transfer in one.missing)
        found = next(under_way, None) or self._kept.pop(transfer, None)
        return found if found is not None and len(found) == size_bytes else bytearray(size_bytes)

    def _withdraw(self, old: _Pending) -> None:
        self._pending.remove(old)
        for transfer in old.missing:
            if not any(transfer in one.missing for one in self._pending):
                self._grant(self._intake.drop(PEER, transfer))
                self.send(Cancel(transfer=transfer, code="superseded"))

    def _store(self, piece: Slice) -> list[Message]:
        arrival = self._intake.arrived(PEER, piece)
        self.moved = arrival.fate is Fate.TAKEN
        complete: list[Message] = []
        for pending in [one for one in self._pending if piece.transfer in one.missing]:
            if arrival.fate is Fate.TAKEN:
                stop = piece.offset + piece.data.nbytes
                pending.buffers[piece.transfer][piece.offset : stop] = piece.data
            if arrival.complete:
                pending.missing.remove(piece.transfer)
            if not pending.missing:
                self._pending.remove(pending)
                complete.append(pending.filled())
        self._grant(arrival.grants)
        return complete

    def _cancel(self, message: Cancel) -> None:
        self._grant(self._intake.drop(PEER, message.transfer))
        self._pending = [one for one in self._pending if message.transfer not in one.missing]
        self._send(self._dispatch.drop(PEER, message.transfer))

    def _send(self, spans: Sequence[To[Span]]) -> None:
        for span in spans:
            data = self._offered[span.what.transfer]
            self.send(span.what.filled(data[span.what.start : span.what.stop]))

    def _grant(self, grants: Sequence[To[Grant]]) -> None:
        if self._conversation.state in (PeerState.MEMBER, PeerState.FINISHED):
            for grant in grants:
                self.send(grant.what)

    def _queue(self, message: Message) -> None:
        self.outbound.append(Outgoing(message=message, frames=tuple(encode(message))))


def _large_sets(message: Message) -> dict[str, memoryview]:
    """Payloads that a message offers rather than contains, by transfer."""
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    sets = [value for value in values if isinstance(value, TensorSet)]
    return {one.transfer: one.data for one in sets if one.transfer is not None and one.data is not None}


def _place(message: Message) -> tuple[int, int] | None:
    """The position of an order or report in a run; None for other messages."""
    if message.KIND not in ORDERS + REPORTS:
        return None
    round_no: int = getattr(message, "round_no")  # noqa: B009 - orders and reports have one, other messages need not
    return Step(kind=message.KIND, round_no=round_no).place
