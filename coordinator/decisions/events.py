"""Events for the coordinator's machine: from the socket, finished work, the clock and the operator.

The shell creates them after the codec and the conversation, so the messages are well formed, legal and of this run.
Tensors are staged under (member, kind, round_no) and only named here. Events are not journalled; the facts that
`machine.handle` derives from them are (`facts`).

A `connection` is the shell's name for one connection of one process (for example a routing id in hex); the machine only
compares it. An `identity` is the public key in use or, on loopback without keys, the name in the hello.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.decisions.actions import BlobRef
from protocol.messages import Heartbeat, Hello, Score, Step

# ---- from the clock and the operator


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The process started: the first event of a new run, and the first after the journal was replayed.

    No member is connected. Answered with the work that a crash may have interrupted. missing: admitted reports whose
    files must be fetched again.
    """

    missing: tuple[BlobRef, ...] = ()
    accepts_older: bool = False
    """Whether the operator agreed to continue from the rounds that the members hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Time passed: due at `machine.next_deadline()`, harmless at any other time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """SIGTERM. Once: finish the round, notify members, exit. Twice: end now, with the weights delivered last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageLow:
    """Less disk space is free than the next round needs, or writing failed (see `reason`). No round is opened or closed
    and nothing is admitted until StorageFree."""

    free_bytes: int
    needed_bytes: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageFree:
    """Enough disk space is free again."""

    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AllowListChanged:
    """The list of admitted (identity, name) pairs was edited. Members that are no longer listed are excluded."""

    allowed: tuple[tuple[str, str], ...]


# ---- from the socket


@dataclass(frozen=True, kw_only=True, slots=True)
class HelloArrived:
    """A hello arrived. Answered with SendWelcome or a `reject`."""

    connection: str
    identity: str
    hello: Hello


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOfLife:
    """Any other sign of life (grant, slice, error, cancel); the shell may limit these to one per second."""

    connection: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """A heartbeat arrived."""

    connection: str
    beat: Heartbeat


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsArrived:
    """A `stats` message is complete. Answered with Inspect, or with Discard if it was not requested."""

    connection: str
    round_no: int
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateArrived:
    """An `update` message is complete, tensors included. Answered with Inspect or Discard. measured: it includes
    statistics. row: the row of W that it requests, as (member, weight) pairs."""

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
    """A report was not needed, or came over a connection without a member: its payload was not fetched. Its sender has
    carried out its order and is free for the next one."""

    connection: str
    step: Step


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveArrived:
    """A participant leaves on purpose."""

    connection: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerFaulted:
    """The peer violated the protocol (RemoteProtocolError) or the rate limit; the shell has answered. A strike."""

    connection: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerLost:
    """The transport reports that this connection is gone (EHOSTUNREACH). The peer is not lost: it may reconnect."""

    connection: str


# ---- from finished work (compute thread)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """The answer to Inspect. code None: admitted, and its blobs are durable. Otherwise the error code and the reason.

    distance, direction: as in UpdateAccepted; None and empty for statistics, or if the weights sent no longer exist.
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
    """A report could not be checked or stored because of a fault on our side: a failing disk or (disk False) missing
    data that the report builds on. It must be sent again; its sender is not at fault."""

    member: str
    kind: str
    round_no: int
    reason: str
    disk: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkInterrupted:
    """A disk error stopped weighing or mixing. Nothing is lost; the work is requested again when the run resumes."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkDamaged:
    """Weighing or mixing found stored reports damaged or missing. They were moved aside and are requested again."""

    ticket: int
    blobs: tuple[BlobRef, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WeighingDone:
    """The answer to Weigh: W over its members, in its order, and each member's similarity to the most similar other."""

    ticket: int
    weights: tuple[tuple[float, ...], ...]
    similarity: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MixingDone:
    """The answer to Aggregate: all its rows can be sent."""

    ticket: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkFailed:
    """Weighing or mixing is impossible (the strategy refused, or a blob is broken). Aborts the run with this reason."""

    ticket: int
    reason: str


FromOperator = Started | Tick | StopRequested | StorageLow | StorageFree | AllowListChanged
ReportArrived = StatsArrived | UpdateArrived | GoodbyeArrived
FromMember = SignOfLife | Beat | ReportArrived | ReportDeclined | LeaveArrived
FromSocket = HelloArrived | FromMember | PeerFaulted | PeerLost
FromWork = Inspected | InspectionFailed | WorkInterrupted | WorkDamaged | WeighingDone | MixingDone | WorkFailed
Event = FromOperator | FromSocket | FromWork
"""Any input of the machine; events are never journalled."""
