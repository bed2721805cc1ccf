"""Actions that the coordinator's machine requests from its shell. The shell performs them in order; actions after a
Persist wait until its fact is durable.

Nothing here holds tensors. BlobRef(member, kind, round_no) names a received blob; RowRef names a mixed row by its
receiver and the round whose order delivers it; WeightsRef names the weights of an order. The shell decides which bytes
these are, where they are stored and how they are sent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.decisions.facts import Fact
from fedap_core.arrays import FloatArray
from fedap_core.strategies import Measure, Phase
from protocol.messages import PLACE_IN_ROUND, Message, Step


class Source(enum.StrEnum):
    """Where the weights of an order come from."""

    INITIAL = "initial"
    """The initial model; a `train` order carries its shared tensors."""
    ANCHOR = "anchor"
    """The anchor: all its tensors in an `anchor` order, its shared tensors in a `train`. The anchor file if `row` is
    None; otherwise that row of the last warm-up round, sent to every member."""
    ROW = "row"
    """The mixed row that `row` names."""


@lru_cache(maxsize=64)
def step_at(kind: str, round_no: int) -> Step:
    """Return the step (cached: all members of a round use the same few)."""
    return Step(kind=kind, round_no=round_no)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRef:
    """A mixed row: its receiver, and the round whose order (or finish) delivers it.

    alone: mixed for this member separately, not together with the round; both may exist for one round.
    """

    member: str
    round_no: int
    alone: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsRef:
    """The weights of an order. `row` is set if they were mixed: always for ROW, and for an ANCHOR made by warm-up."""

    source: Source
    row: RowRef | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobRef:
    """A tensor set received from a member. kind: "stats", "update", or "update-statistics" (sent with an update)."""

    member: str
    kind: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A message `anchor`, `train` or `finish` without its tensors.

    kind, round_no, measure, phase, reason: the message's fields, if its kind has them. weights None: the field is nil
    (an `anchor` under the initial model, a `finish` before any weights). If no tensors are shared, the shell sends an
    empty set. peers: sealed statistics that a `train` includes. mixed_from, similarity: fields of a `finish` about its
    model.
    """

    kind: str
    round_no: int
    weights: WeightsRef | None
    peers: tuple[BlobRef, ...] = ()
    measure: Measure = Measure.NONE
    phase: Phase | None = None
    reason: str | None = None
    mixed_from: tuple[tuple[str, float], ...] = ()
    similarity: float | None = None

    @property
    def step(self) -> Step:
        return step_at(self.kind, self.round_no)

    @property
    def place(self) -> tuple[int, int]:
        """The place of `step`, without building a Step: called for every member at every event."""
        return self.round_no, PLACE_IN_ROUND[self.kind]


# ---- durability


@dataclass(frozen=True, kw_only=True, slots=True)
class Persist:
    """Journal this fact with the `now` passed to `handle`. It must be durable before the next action starts."""

    fact: Fact


@dataclass(frozen=True, kw_only=True, slots=True)
class Discard:
    """Drop the staged bytes of this report: it is not needed. Usually a repeat; not a fault, and not answered."""

    member: str
    kind: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Collect:
    """Allow deletion of every stored blob and row that is not listed; those of running work are listed too."""

    blobs: frozenset[BlobRef]
    rows: frozenset[RowRef]


# ---- the socket


@dataclass(frozen=True, kw_only=True, slots=True)
class Send:
    """Send a message without tensors: reject, hello-required, heartbeat, error. member: for the log."""

    connection: str
    member: str | None
    message: Message


@dataclass(frozen=True, kw_only=True, slots=True)
class SendWelcome:
    """Send `welcome`. The shell adds run, plan and heartbeat_s. initial: include the initial model, otherwise nil."""

    connection: str
    member: str
    round_no: int
    initial: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SendOrder:
    """Send an order. May be repeated for the same step; an equal payload already in transfer is offered again."""

    connection: str
    member: str
    order: Order


@dataclass(frozen=True, kw_only=True, slots=True)
class Forget:
    """Drop the conversation and transfers of a connection that no longer belongs to a member. It may say hello."""

    connection: str


# ---- work that answers with an event


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspect:
    """Check the values of a received report (`admission.inspect_update`, `inspect_stats`), make its blobs durable, and
    answer with Inspected. phase: which tensors are shared (warm-up shares BN too). sent: the weights the member was
    sent, to measure how far its update moved; None: nothing to compare with. limit: largest admitted distance; None:
    any. measure: kind of statistics, NONE if there are none; samples: how many samples they cover according to the
    member; announced: training samples in its hello. train_loss: as reported with an update."""

    member: str
    kind: str
    round_no: int
    phase: Phase
    sent: WeightsRef | None
    limit: float | None
    measure: Measure
    samples: int
    announced: int
    train_loss: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Weigh:
    """Compute W (`strategy.mixing`) from these members' statistics; answer with WeighingDone.

    statistics and samples have one entry per member (samples: training samples, used as the evidence's counts).
    """

    ticket: int
    members: tuple[str, ...]
    statistics: tuple[BlobRef, ...]
    samples: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Aggregate:
    """Mix the givers' updates, in this order, into a row for each receiver; answer with MixingDone.

    weights: (receivers, givers), rows sum to 1. If nobody is missing, givers and receivers are all members in sorted
    order and the weights are the strategy's own, bit for bit. phase WARMUP: rows hold the BN tensors too.
    """

    ticket: int
    phase: Phase
    receivers: tuple[RowRef, ...]
    givers: tuple[BlobRef, ...]
    weights: FloatArray

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.receivers), len(self.givers)):
            raise ValueError(f"weights {self.weights.shape} for {len(self.receivers)} rows, {len(self.givers)} givers")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Aggregate)
            and (self.ticket, self.phase, self.receivers, self.givers)
            == (other.ticket, other.phase, other.receivers, other.givers)
            and np.array_equal(self.weights, other.weights)
        )

    def __hash__(self) -> int:
        return hash((self.ticket, self.phase, self.receivers, self.givers))


# ---- for people


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A log line: `noun.verb` in the past tense, with context. details: (name, value) pairs."""

    event: str
    member: str | None = None
    round_no: int | None = None
    details: tuple[tuple[str, str | int | float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The run is over and every present member knows: flush and exit, with code 0 unless aborted.

    halted: the run is not over but cannot continue until the operator acts; members are not notified and nothing is
    journalled. lost: the missing report that blocks the run and that its member no longer holds. obstacle: why the run
    can never continue from this folder; empty if it can."""

    aborted: bool
    sentence: str
    halted: bool = False
    lost: BlobRef | None = None
    obstacle: str = ""


Task = Discard | Collect | Inspect | Weigh | Aggregate
Effect = Send | SendWelcome | SendOrder | Forget | Note | Stop | Task
"""Actions performed once the facts before them are durable."""

Action = Persist | Effect
"""Anything the machine requests."""
