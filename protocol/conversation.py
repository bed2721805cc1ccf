"""Which message may follow which, between one participant and one coordinator.

Rules for this file:
1. TABLE is complete. A transition that is not in it does not exist; no code below names a state to make one.
2. Both sides apply the same table to the messages they send and receive.
3. Sending what the table does not allow is our fault, always: LocalProtocolError, and nothing is sent.
4. Receiving it is not a fault. The network loses, repeats and delays messages, and the two views of a conversation
   differ by those in flight; such a message is stale and is dropped. Only what the network cannot cause is the peer's
   fault: sending a kind that belongs to the other side, or reporting on a round that was never ordered.
5. A hello is allowed at any time and restarts the conversation. So no state is a dead end, and a restart needs no
   memory.
6. No clocks, no payloads, no policy. Whether a participant is welcome, or a round over, is decided elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from protocol.errors import BadRound, LocalProtocolError, WrongSender
from protocol.messages import ORDERS, REPORTS, Message, Side, Welcome

P, C = Side.PARTICIPANT, Side.COORDINATOR


class PeerState(enum.StrEnum):
    """How far two peers have come."""

    UNKNOWN = "unknown"  # no valid message yet
    PENDING = "pending"  # a hello waits for its answer
    MEMBER = "member"  # welcomed: orders and reports
    FINISHED = "finished"  # the run is over; last weights and goodbyes
    CLOSED = "closed"  # left or rejected


class Freshness(enum.Enum):
    """What to do with a message that arrived."""

    VALID = enum.auto()  # hand it to policy
    STALE = enum.auto()  # drop it; see `hello_required`


def _stay(state: PeerState, *kinds: str) -> dict[str, PeerState]:
    return dict.fromkeys(kinds, state)


_SIGNALS = ("heartbeat", "error", "grant", "slice", "cancel")

TABLE: Mapping[PeerState, Mapping[Side, Mapping[str, PeerState]]] = {
    PeerState.UNKNOWN: {
        P: {"hello": PeerState.PENDING},
        C: _stay(PeerState.UNKNOWN, "hello-required", "error"),
    },
    PeerState.PENDING: {
        P: {"hello": PeerState.PENDING},
        C: {
            "welcome": PeerState.MEMBER,
            "reject": PeerState.CLOSED,
            "hello-required": PeerState.UNKNOWN,
            "error": PeerState.PENDING,
        },
    },
    PeerState.MEMBER: {
        P: {
            "hello": PeerState.PENDING,
            "leave": PeerState.CLOSED,
            "goodbye": PeerState.FINISHED,  # from one that reconnects after its finish
            **_stay(PeerState.MEMBER, "stats", "update", *_SIGNALS),
        },
        C: {
            "finish": PeerState.FINISHED,
            "reject": PeerState.CLOSED,
            "hello-required": PeerState.UNKNOWN,
            **_stay(PeerState.MEMBER, "anchor", "train", *_SIGNALS),
        },
    },
    PeerState.FINISHED: {
        P: {"hello": PeerState.PENDING, "leave": PeerState.CLOSED, **_stay(PeerState.FINISHED, "goodbye", *_SIGNALS)},
        C: {"hello-required": PeerState.UNKNOWN, **_stay(PeerState.FINISHED, "finish", *_SIGNALS)},
    },
    PeerState.CLOSED: {
        P: {"hello": PeerState.PENDING},
        C: {"hello-required": PeerState.UNKNOWN, **_stay(PeerState.CLOSED, "reject", "error")},
    },
}
"""state -> sender -> kind -> next state."""


class Conversation:
    """One side's view of one peer. `send` before sending, `receive` after decoding; both move the same state."""

    def __init__(self, role: Side) -> None:
        self.role = role
        self.state = PeerState.UNKNOWN
        self.run: str | None = None
        """The run of the last welcome."""
        self.ordered = -1
        """The highest round ordered from the participant, as far as this side knows."""

    @property
    def hello_required(self) -> bool:
        """Whether a stale message shows that the participant believes it is a member, although we do not know it."""
        return self.role is C and self.state in (PeerState.UNKNOWN, PeerState.CLOSED)

    def send(self, message: Message) -> None:
        """Record that `message` is about to be sent; LocalProtocolError if it must not be."""
        if self.role not in message.SENDERS:
            raise LocalProtocolError(f"a {self.role} never sends {message.KIND}")
        following = TABLE[self.state][self.role].get(message.KIND)
        if following is None:
            raise LocalProtocolError(f"{self.role} in state {self.state} must not send {message.KIND}")
        if self._run_of(message) != self.run and message.KIND != Welcome.KIND:
            raise LocalProtocolError(f"{message.KIND} names run {self._run_of(message)}, this is run {self.run}")
        if message.KIND in REPORTS and _round_of(message) > self.ordered:
            raise LocalProtocolError(f"{message.KIND} for round {_round_of(message)}, ordered up to {self.ordered}")
        self._move(following, message)

    def receive(self, message: Message) -> Freshness:
        """Decide whether a decoded message is valid or stale; RemoteProtocolError for what no network can cause."""
        if self.role.other not in message.SENDERS:
            raise WrongSender(f"a {self.role.other} never sends {message.KIND}")
        following = TABLE[self.state][self.role.other].get(message.KIND)
        if following is None or (self._run_of(message) != self.run and message.KIND != Welcome.KIND):
            return Freshness.STALE
        if message.KIND in REPORTS and _round_of(message) > self.ordered:
            raise BadRound(f"{message.KIND} for round {_round_of(message)}, ordered up to {self.ordered}")
        self._move(following, message)
        return Freshness.VALID

    def _run_of(self, message: Message) -> str | None:
        """Return the run of a message. Signals without one belong to any, and so does hello, which may name an old
        run."""
        return getattr(message, "run", self.run) if message.KIND != "hello" else self.run

    def _move(self, following: PeerState, message: Message) -> None:
        self.state = following
        if isinstance(message, Welcome):
            known = self.ordered if message.run == self.run else -1  # a late welcome must not make us forget orders
            self.run, self.ordered = message.run, max(known, message.round_no)
        elif message.KIND in ORDERS:
            self.ordered = max(self.ordered, _round_of(message))


def _round_of(message: Message) -> int:
    round_no: int = getattr(message, "round_no")  # noqa: B009 - orders and reports have one, other messages need not
    return round_no
