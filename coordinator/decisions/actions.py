"""Actions that the coordinator's machine asks of its shell. The order matters: the shell performs a list from front to
back, and actions after a Persist wait until it is durable.

Nothing here holds tensors. A blob that came is named BlobRef(member, kind, round_no); a row that mixing makes is named
RowRef (its receiver, and the round whose order delivers it); what an order carries is a WeightsRef. Which bytes these
are, where they lie and how they travel is the shell's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.decisions.facts import Fact
from fedap_core.arrays import FloatArray
from fedap_core.strategies import Measure, Phase
from protocol.messages import ORDERS, Message, Step


class Source(enum.StrEnum):
    """Where the weights of an order come from."""

    INITIAL = "initial"
    """The initial model: its shared tensors in a `train`."""
    ANCHOR = "anchor"
    """The anchor: all tensors in an `anchor` order, its shared tensors in a `train`. The anchor file if `row` is None;
    otherwise that row of the last warm-up round, which everybody gets."""
    ROW = "row"
    """The row that is named."""


@lru_cache(maxsize=64)
def step_at(kind: str, round_no: int) -> Step:
    """The step of that name; all members of a round ask for the same few."""
    return Step(kind=kind, round_no=round_no)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRef:
    """A row made by mixing: whose it is, and the round whose order (or finish) delivers it.

    alone: mixed for this member by itself, not with everybody's; both may exist for one round.
    """

    member: str
    round_no: int
    alone: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsRef:
    """What an order carries. `row` names it where mixing made it: always for ROW, for an ANCHOR that warm-up made."""

    source: Source
    row: RowRef | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobRef:
    """A tensor set that came from a member. kind: "stats", "update", or "update-statistics" (came along with one)."""

    member: str
    kind: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A message `anchor`, `train` or `finish` without its tensors.

    kind, round_no, measure, phase, reason are the message's fields, where its kind has them. weights None: the field is
    nil (an `anchor` under the initial model, a `finish` before any weights). Where everything stays home the shell
    sends an empty set. peers: sealed statistics that a `train` brings along. mixed_from, similarity: what a `finish`
    says about the model it brings.
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
        """That of `step`, without building one: asked of every member at every event."""
        return self.round_no, ORDERS.index(self.kind)


# ---- durability


@dataclass(frozen=True, kw_only=True, slots=True)
class Persist:
    """Journal this fact, with the `now` that was given to `handle`. Durable before the next action begins."""

    fact: Fact


@dataclass(frozen=True, kw_only=True, slots=True)
class Discard:
    """What arrived as this report is not wanted: drop its staged bytes. A repeat, mostly; no fault, no answer."""

    member: str
    kind: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Collect:
    """Every stored blob and row that is not listed may be deleted; work under way is listed too."""

    blobs: frozenset[BlobRef]
    rows: frozenset[RowRef]


# ---- the socket


@dataclass(frozen=True, kw_only=True, slots=True)
class Send:
    """Send a message that has no tensors: reject, hello-required, heartbeat, error. member: for the log."""

    connection: str
    member: str | None
    message: Message


@dataclass(frozen=True, kw_only=True, slots=True)
class SendWelcome:
    """Send `welcome`. The shell adds run, plan and heartbeat_s; `initial`: with the initial model, else nil."""

    connection: str
    member: str
    round_no: int
    initial: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SendOrder:
    """Send an order. May come again for the same step; an equal payload already under way is offered again."""

    connection: str
    member: str
    order: Order


@dataclass(frozen=True, kw_only=True, slots=True)
class Forget:
    """This connection is nobody's any more: drop its conversation and its transfers. It may say hello."""

    connection: str


# ---- work whose end comes back as an event


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspect:
    """Judge the values of a report that arrived (`admission.inspect_update`, `inspect_stats`), make its blobs durable,
    and answer with Inspected. phase: which tensors are shared (warm-up shares BN too). sent: what the member was given,
    to measure how far it went; None: nothing to compare with. limit: longest admitted distance; None: any.
    measure: what the statistics are of, NONE where there are none; samples: what the member says they are from;
    announced: what its hello said. train_loss: what came with an update."""

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
    """Compute strategy.mixing over these members' statistics; answer with WeighingDone.

    statistics and samples have one entry per member (samples: training samples, the evidence's counts).
    """

    ticket: int
    members: tuple[str, ...]
    statistics: tuple[BlobRef, ...]
    samples: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Aggregate:
    """mix(weights, updates of the givers in this order) -> a row for each receiver; answer with MixingDone.

    weights: (receivers, givers), rows sum to 1. With everyone there, givers and receivers are all members in sorted
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
    """A log line: `noun.verb` in the past, and what a reader needs. details: (name, value) pairs."""

    event: str
    member: str | None = None
    round_no: int | None = None
    details: tuple[tuple[str, str | int | float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The run is over and everybody who is there knows: flush and end, exit code 0 unless aborted.

    halted: the run is not over. It cannot go on until the operator has done something; nobody is told, and nothing
    is journalled. lost: the report that stands in the way, whose member no longer holds it. obstacle: why it can never
    go on with this folder, empty if it can."""

    aborted: bool
    sentence: str
    halted: bool = False
    lost: BlobRef | None = None
    obstacle: str = ""


Task = Discard | Collect | Inspect | Weigh | Aggregate
Effect = Send | SendWelcome | SendOrder | Forget | Note | Stop | Task
"""What is done once the facts before it are durable."""

Action = Persist | Effect
"""Anything the machine asks for."""
