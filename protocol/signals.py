"""Messages that keep a conversation alive and move its payloads: heartbeat, error, grant, slice, cancel.

They carry no model and no result; losing one costs only time. `transfer` defines what a grant means, `delivery`
what a heartbeat asks for.
"""

from __future__ import annotations

from typing import Annotated

from protocol.carriage import RawFrame
from protocol.contracts import FLAG, one_of, record, whole
from protocol.errors import CODES, CONTENT_CODES, InvalidField, RemoteProtocolError
from protocol.limits import SET_BYTES, SLICE_BYTES, TEXT_CHARS
from protocol.message_base import FROM_BOTH, Message, Step
from protocol.plan import Digest, FreeText, RoundNo, RunId

ByteCount = Annotated[int, whole(0, SET_BYTES)]


@record
class Heartbeat(Message):
    """Sent at least every `heartbeat_s` unless something else was sent; says what has arrived and what is missing.

    run: the run.
    round_no: the sender's current round.
    have: the latest order or report that it holds completely; nil before the first.
    want: the next one it waits for; nil while it is working itself.
    """

    KIND = "heartbeat"
    SENDERS = FROM_BOTH

    run: RunId
    round_no: RoundNo
    have: Step | None
    want: Step | None


@record
class Error(Message):
    """A message of the peer was refused; the conversation continues without it.

    code: the reason.
    reason: the same for a person.
    about: the order or report that was refused; nil if it could not be read.
    """

    KIND = "error"
    SENDERS = FROM_BOTH

    code: Annotated[str, one_of(*CODES)]
    reason: FreeText
    about: Step | None

    @staticmethod
    def of(fault: RemoteProtocolError, about: Step | None = None) -> Error:
        """Return the answer to a peer's fault."""
        return Error(code=fault.code, reason=str(fault)[:TEXT_CHARS], about=about)


@record
class Grant(Message):
    """Permission to send slices, and receipt for those that arrived. Cumulative: the latest one replaces all others.

    transfer: name of the payload.
    received: every byte below this offset has arrived.
    until: slices below this offset may be sent.
    again: restart at `received`, whatever was sent before; false in a receipt or extension.
    """

    KIND = "grant"
    SENDERS = FROM_BOTH

    transfer: Digest
    received: ByteCount
    until: ByteCount
    again: Annotated[bool, FLAG]

    def _check(self) -> None:
        if self.until < self.received:
            raise InvalidField("until", self.until, f"at least `received`, {self.received}")


@record
class Slice(Message):
    """One slice of a payload; the last one may be shorter.

    transfer: name of the whole payload.
    offset: position of the slice; a multiple of the slice size.
    data: the bytes.
    """

    KIND = "slice"
    SENDERS = FROM_BOTH

    transfer: Digest
    offset: ByteCount
    data: Annotated[memoryview, RawFrame(SLICE_BYTES)]


@record
class Cancel(Message):
    """A transfer ends: its receiver declines it, or its sender withdraws it.

    transfer: name of the payload.
    code: the reason.
    """

    KIND = "cancel"
    SENDERS = FROM_BOTH

    transfer: Digest
    code: Annotated[str, one_of(*CONTENT_CODES)]
