"""Errors of the protocol and their codes on the wire: LocalProtocolError is our fault, RemoteProtocolError the peer's.

Every code of `error`, `reject` or `cancel` is in one of three tables here. This file must not know how a shell handles
an error (answer, count, quarantine); it only defines a name and a sentence.
"""

from __future__ import annotations

from typing import ClassVar

SHOWN_CHARS = 80
"""A peer's value longer than this is cut in an error: enough to recognise it, too little to flood a log."""

WIRE_CODES = {
    "bad-frames": "the message does not have the frames its header announces",
    "too-large": "a frame, a count or a nesting is over its limit",
    "bad-header": "the header is not the msgpack array of the grammar",
    "version": "the peers' versions have different major numbers",
    "unknown-kind": "no message of this kind exists",
    "bad-field": "a field is missing, unknown, or outside its contract",
    "overflow": "a value does not fit into the transport encoding",
    "wrong-speaker": "this kind belongs to the other side",
    "bad-round": "a report about a round that was never ordered",
    "bad-transfer": "a grant or slice that no honest transfer produces",
    "bad-checksum": "the payload is complete and its checksum is wrong",
}
"""Codes of RemoteProtocolErrors: the bytes or their order are wrong."""

REFUSAL_CODES = {
    "version": WIRE_CODES["version"],
    "unknown-key": "the public key is not on the list of members",
    "name-taken": "this name belongs to another key",
    "name-in-use": "another process uses this name or key and is alive",
    "wrong-layout": "the model's tensors differ",
    "wrong-classes": "the class names or their order differ",
    "wrong-input-shape": "the model's input shape differs",
    "wrong-preprocessing": "the inputs are scaled differently",
    "wrong-group-key": "the members' common key differs or is missing",
    "too-few-samples": "fewer samples than required",
    "too-many-samples": "more samples than allowed, or a number that changed too much since the first hello",
    "full": "the federation has its maximum number of members",
    "run-over": "the run has ended",
    "quarantined": "too many refused messages",
}
"""Codes of `reject`: the bytes are right, the participant may not take part."""

CONTENT_CODES = {
    "not-finite": "a NaN or an infinity in tensors that would be mixed",
    "out-of-range": "a value beyond the admitted magnitude",
    "too-far": "an update whose step is much larger than allowed or than the others' steps",
    "bad-statistics": "statistics with wrong layers, channels, counts or a negative variance",
    "wrong-tensors": "the tensors are not those the plan shares",
    "bad-seal": "a sealed sum that is not the announced one",
    "bad-row": "a requested row of W outside the run's rules",
    "superseded": "a newer message replaces this one",
    "no-space": "no disk space for the payload",
    "rate": "more messages than the limit allows",
}
"""Codes of `error` and `cancel` about a message that is well formed."""

CODES = {**WIRE_CODES, **REFUSAL_CODES, **CONTENT_CODES}


def shown(value: object) -> str:
    """Return a peer's value for an error message: short, printable, and safe for anything a decoder can return.

    Containers are named, not printed: printing one nested a thousand levels deep would raise RecursionError.
    """
    if isinstance(value, str | bytes | int | float | None):
        if isinstance(value, str | bytes):
            value = value[:SHOWN_CHARS]
        text = repr(value) if not isinstance(value, int) or value.bit_length() <= 64 else "a huge number"
        return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | dict) else "")


class ProtocolError(Exception):
    """A rule of the protocol was broken. Catch one of the two subclasses, which tell whose fault it is."""


class LocalProtocolError(ProtocolError):
    """We tried to send something illegal: a fault in this program. Nothing was sent."""


class InvalidField(LocalProtocolError):
    """A message was built with a field outside its contract. The codec turns it into BadField when a peer built it."""

    def __init__(self, field: str, got: object, expected: str) -> None:
        super().__init__(f"field {field!r}: got {shown(got)}, expected {expected}")
        self.field = field
        self.got = got
        self.expected = expected

    def inside(self, outer: str) -> InvalidField:
        """Return the same fault as seen from the enclosing record: `sgd` becomes `plan.sgd`."""
        return InvalidField(f"{outer}.{self.field}", self.got, self.expected)


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal. `code` is sent back; the message is for both logs."""

    code: ClassVar[str]


class BadFrames(RemoteProtocolError):
    """Too few or too many frames, or one of the wrong length."""

    code = "bad-frames"


class TooLarge(RemoteProtocolError):
    """Something exceeds a limit; it was refused before it was allocated."""

    code = "too-large"

    def __init__(self, what: str, got: int, limit: int) -> None:
        super().__init__(f"{what}: got {got}, the limit is {limit}")


class BadHeader(RemoteProtocolError):
    """The header does not follow the grammar, so nothing in it can be trusted."""

    code = "bad-header"


class VersionMismatch(RemoteProtocolError):
    """The peer uses another major version; nothing beyond the version was read."""

    code = "version"


class UnknownKind(RemoteProtocolError):
    """A kind that is not in the table of messages."""

    code = "unknown-kind"


class BadField(RemoteProtocolError):
    """A peer sent a field outside its contract."""

    code = "bad-field"

    def __init__(self, field: str, got: object, expected: str) -> None:
        super().__init__(f"field {field!r}: got {shown(got)}, expected {expected}")
        self.field = field


class Overflow(RemoteProtocolError):
    """An f16 value arrived as infinity: the sender's float32 did not fit and it should have refused to send."""

    code = "overflow"


class WrongSender(RemoteProtocolError):
    """A participant sent a coordinator's message, or the other way round."""

    code = "wrong-speaker"


class BadRound(RemoteProtocolError):
    """A report about a round that no order has opened."""

    code = "bad-round"


class BadTransfer(RemoteProtocolError):
    """A grant or slice that no honest transfer produces, whatever the network does."""

    code = "bad-transfer"


class BadChecksum(RemoteProtocolError):
    """All bytes have arrived, but they are not the offered ones; they are discarded."""

    code = "bad-checksum"
