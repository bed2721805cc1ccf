"""Events for the coordinator's machine: from the socket, finished work, the clock and the operator.

The shell makes them. It has run the codec and the conversation before, so what arrives here is well formed, legal and
of this run; it has put tensors aside under (member, kind, round_no) and names them only. Events are not journalled
themselves: `machine.handle` answers with the facts that are (`facts`).

A `connection` is the shell's name for one connection of one process life (a routing id in hex, say); the machine only
compares it. An `identity` is the public key in use, or on loopback without keys the name that the hello gave.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.decisions.actions import BlobRef
from protocol.messages import Heartbeat, Hello, Score, Step

# ---- from the clock and the operator


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A life of the process begins: first event of a new run, and first after the journal was fed back.

    Nobody is connected. Answered by the work that a crash may have interrupted. missing: admitted reports whose files
    are to be fetched again.
    """

    missing: tuple[BlobRef, ...] = ()
    accepts_older: bool = False
    """The operator has agreed to go on from what the members hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Time passed: due at `machine.next_deadline()`, harmless at any other time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """SIGTERM. Once: finish the round, tell everybody, end. Twice: end now, with the weights delivered last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageLow:
    """Less disk is free than the next round needs, or writing failed: `reason` says how. Nothing is closed, opened or
    admitted until StorageFree."""

    free_bytes: int
    needed_bytes: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageFree:
    """There is room again."""

    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AllowListChanged:
    """The list of admitted (identity, name) pairs was edited. Members whose identity is gone are excluded."""

    allowed: tuple[tuple[str, str], ...]


# ---- from the socket


@dataclass(frozen=True, kw_only=True, slots=True)
class HelloArrived:
    """A hello arrived. Answered by SendWelcome or by a `reject`."""

    connection: str
    identity: str
    hello: Hello


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOfLife:
    """Any other sign of life (grant, slice, error, cancel); the shell may thin these out to one per second."""

    connection: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """A heartbeat arrived."""

    connection: str
    beat: Heartbeat


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsArrived:
    """A `stats` message is complete. Answered by Inspect, or by Discard when nobody asked."""

    connection: str
    round_no: int
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateArrived:
    """An `update` message is complete, tensors included. Answered by Inspect or Discard. measured: has statistics.
    row: the row of W that it requests, (member, weight) pairs."""

    connection: str
    round_no: int
    steps: int
    train_loss: float | None
    scores: tuple[Score, ...]
    measured: bool
    row: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GoodbyeArrived:
    """A `goodbye` message is complete."""

    connection: str
    round_no: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportDeclined:
    """A report came that is of no use, or over a connection that is nobody's: nothing of it was fetched or kept. Its
    sender has done what it was told, and is free."""

    connection: str
    step: Step


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveArrived:
    """A participant leaves on purpose."""

    connection: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerFaulted:
    """The peer broke the protocol (a RemoteProtocolError, or the rate limit); the shell has answered. A strike."""

    connection: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerLost:
    """The transport says that this connection is gone (EHOSTUNREACH). Not a death: the peer may connect again."""

    connection: str


# ---- from finished work (compute thread)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """The answer to Inspect. code None: admitted, and its blobs are durable now. Otherwise the content code and why.

    distance, direction: as in UpdateAccepted; None and empty for statistics or where what was sent is no longer there.
    """

    member: str
    kind: str
    round_no: int
    code: str | None
    reason: str
    distance: float | None
    direction: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectionFailed:
    """A report could not be judged or kept for a fault of ours: a disk that fails, or (disk false) something it builds
    on that is no longer here. It must come again; whoever sent it has done nothing wrong."""

    member: str
    kind: str
    round_no: int
    reason: str
    disk: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkInterrupted:
    """Weighing or mixing was stopped by the disk. Nothing is lost; it is asked for again when the run goes on."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkDamaged:
    """Weighing or mixing found that stored reports are damaged or gone. They were put aside and are asked for again."""

    ticket: int
    blobs: tuple[BlobRef, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WeighingDone:
    """The answer to Weigh: W over its members, in its order, and how alike each is to the one most like it."""

    ticket: int
    weights: tuple[tuple[float, ...], ...]
    similarity: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MixingDone:
    """The answer to Aggregate: every row it names can be sent."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkFailed:
    """Weighing or mixing cannot be done (a strategy's objection, a broken blob). The run is aborted with this."""

    ticket: int
    reason: str


FromOperator = Started | Tick | StopRequested | StorageLow | StorageFree | AllowListChanged
ReportArrived = StatsArrived | UpdateArrived | GoodbyeArrived
FromMember = SignOfLife | Beat | ReportArrived | ReportDeclined | LeaveArrived
FromSocket = HelloArrived | FromMember | PeerFaulted | PeerLost
FromWork = Inspected | InspectionFailed | WorkInterrupted | WorkDamaged | WeighingDone | MixingDone | WorkFailed
Event = FromOperator | FromSocket | FromWork
"""Anything the machine hears; the journal keeps none of it."""
