"""Messages that keep a conversation alive and move its payloads: heartbeat, error, grant, slice, cancel.

They carry no model and no result; any of them may be lost without losing anything but time. What a grant means is
`transfer`'s, what a heartbeat asks for is `delivery`'s.
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
    """Sign of life, at least every `heartbeat_s` unless something else was sent; lists what has come and what has not.

    run: the run.
    round_no: the round the sender is in.
    have: the latest order or report it holds completely; nil before the first.
    want: the next one it is waiting for; nil while it is busy itself.
    """

    KIND = "heartbeat"
    SENDERS = FROM_BOTH

    run: RunId
    round_no: RoundNo
    have: Step | None
    want: Step | None


@record
class Error(Message):
    """A message of the peer was refused; the conversation goes on without it.

    code: the reason.
    reason: the same for a person.
    about: the order or report that was refused; nil when it could not even be read.
    """

    KIND = "error"
    SENDERS = FROM_BOTH

    code: Annotated[str, one_of(*CODES)]
    reason: FreeText
    about: Step | None

    @staticmethod
    def of(fault: RemoteProtocolError, about: Step | None = None) -> Error:
        """The answer to a peer's fault."""
        return Error(code=fault.code, reason=str(fault)[:TEXT_CHARS], about=about)


@record
class Grant(Message):
    """Leave to send slices, and receipt for those that came. Cumulative: the latest one replaces all others.

    transfer: name of the payload.
    received: every byte below this offset is held.
    until: slices below this offset may be sent.
    again: begin at `received`, whatever was sent before; false in a mere receipt or extension.
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
    """A piece of a payload: one slice, or what remains at the end.

    transfer: name of the whole payload.
    offset: where the piece belongs; a multiple of the slice size.
    data: the bytes.
    """

    KIND = "slice"
    SENDERS = FROM_BOTH

    transfer: Digest
    offset: ByteCount
    data: Annotated[memoryview, RawFrame(SLICE_BYTES)]


@record
class Cancel(Message):
    """A transfer will not go on: its receiver declines it, or its sender withdraws it.

    transfer: name of the payload.
    code: the reason.
    """

    KIND = "cancel"
    SENDERS = FROM_BOTH

    transfer: Digest
    code: Annotated[str, one_of(*CONTENT_CODES)]
