"""The durable state of a run, which survives a crash: data and queries.

It changes by facts alone (`history.apply`). Connections are in `roster` and lost with the process. Tensors are named,
never held; W is held, because its rows are restricted to the members that reported.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from coordinator.decisions.actions import BlobRef, Order, RowRef, WeightsRef
from coordinator.decisions.rules import Rules
from coordinator.decisions.stages import Stage
from fedap_core.arrays import FloatArray
from fedap_core.strategies import Measure, Phase
from protocol.messages import Step


class Status(enum.StrEnum):
    """Status of a member. The first two are active: rows are mixed for them and their updates count."""

    PRESENT = "present"
    LOST = "lost"
    LEFT = "left"
    EXCLUDED = "excluded"
    REMOVED = "removed"
    """Its key was removed from the list; once listed again, it may return."""


_PRESENT, _LOST = Status.PRESENT, Status.LOST
"""Looked up once: members are checked thousands of times in a round, and an enum's attributes are slow."""


@dataclass(kw_only=True)
class Member:
    """One participant of the run."""

    name: str
    identity: str
    train_samples: int
    test_samples: int
    status: Status = Status.PRESENT
    first_samples: int = 0
    """Training samples that it joined with; later counts must stay close."""
    strikes: int = 0
    instance: str = ""
    """Digest of the token of the process that holds this name."""
    held_since: float = 0.0
    earlier_strikes: dict[str, int] = field(default_factory=dict)
    """Strikes of processes that held this name before, by their digests; only in runs without keys."""
    contested: int = 0
    """Refused hellos of other processes under this name, as journalled; `contested_at`: when last journalled."""
    contested_at: float | None = None
    admitted: int = 0
    """Updates admitted since its last strike, or since one was forgiven."""
    has_anchor: bool = False
    """Whether it answered an order to start from the anchor."""
    statistics: BlobRef | None = None
    """Admitted statistics, from which W is computed."""
    row: tuple[tuple[str, int], ...] = ()
    """The row of W that it requested in a sealed run; `row_of`: from which statistics; `row_phase`: for which phase."""
    row_of: tuple[BlobRef, ...] = ()
    row_phase: str = ""
    update_round: int | None = None
    """Round of the latest admitted update that can still be mixed."""
    accepted_at: int = 0
    """The run's count of admitted updates, including this latest one."""
    distance: float | None = None
    trend: FloatArray | None = field(default=None, compare=False)
    """The direction of its updates, over several rounds."""
    doubt: float = 0.0
    """Share of its updates withheld from others because their direction opposes the others' common direction."""
    accuracy: float | None = None
    """On its validation samples, as last reported."""
    order: Order | None = None
    """Its current order, sent or to be sent as soon as it is reachable."""
    earlier: Order | None = None
    """The order that `order` replaced before it was answered: a straggler still works on it."""
    answered: Step | None = None
    """The latest report that was admitted or refused and so need not be sent again."""
    answer_due: bool = False
    """Whether it is owed a separate mix that is not planned yet."""
    said_goodbye: bool = False
    is_stalled: bool = False
    """A round without a deadline closed without it although it was present: not waited for until it reports again."""

    @property
    def is_active(self) -> bool:
        return self.status is _PRESENT or self.status is _LOST

    @property
    def is_barred(self) -> bool:
        """Whether it was excluded and no earlier process under its name can reclaim the name."""
        return self.status is Status.EXCLUDED and not self.earlier_strikes

    @property
    def waits_individually(self) -> bool:
        """Whether it has an unanswered order with a separate mix; a crash may have lost that mix."""
        row = self.order.weights.row if self.order is not None and self.order.weights is not None else None
        return row is not None and row.alone and not self.has_answered(self.order)

    def has_answered(self, order: Order | None) -> bool:
        """Whether the report to this order was admitted or refused; True without an order."""
        return order is None or (self.answered is not None and self.answered.place >= order.place)


@dataclass(frozen=True, kw_only=True)
class Leaver:
    """A member as it was when it left. took_part: whether it took part in the open round."""

    member: Member
    took_part: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """How rows are made: an Aggregate without its ticket."""

    phase: Phase
    receivers: tuple[RowRef, ...]
    givers: tuple[BlobRef, ...]
    weights: FloatArray

    @cached_property
    def row_of(self) -> Mapping[str, RowRef]:
        """The row of each receiver, by name."""
        return {row.member: row for row in self.receivers}

    def shares_of(self, member: str) -> tuple[tuple[str, float], ...]:
        """Return (giver, weight) pairs of a receiver's row, heaviest first, without zero weights."""
        place = next(index for index, row in enumerate(self.receivers) if row.member == member)
        given = zip((giver.member for giver in self.givers), map(float, self.weights[place]), strict=True)
        return tuple(sorted((one for one in given if one[1] > 0.0), key=lambda one: (-one[1], one[0])))


@dataclass(kw_only=True)
class State:
    """The state of a run: everything derived from its facts."""

    stage: Stage = Stage.ENROLLING
    began_at: float | None = None
    members: dict[str, Member] = field(default_factory=dict)
    """By name, sorted."""
    leavers: dict[str, Leaver] = field(default_factory=dict)
    """Members that left during the open round or its measuring; until it ends they may return as if they had not."""
    allowed: tuple[tuple[str, str], ...] | None = None
    enrolled: bool = False
    round_no: int = 0
    """The round that is open or being mixed; in continuous mode the one that all members started from."""
    round_members: tuple[str, ...] = ()
    opened_at: float = 0.0
    """When the current wait (for members to enrol, measure or report) began; in continuous mode the latest update."""
    paused_at: float | None = None
    paused_reason: str = ""
    recipe: Recipe | None = None
    """How the rows of the current orders (or of the final ones) are mixed, all members together."""
    anchor: WeightsRef | None = None
    anchor_recipe: Recipe | None = None
    weighed_members: tuple[str, ...] = ()
    weighed: FloatArray | None = None
    similarity: Mapping[str, float] = field(default_factory=dict)
    """Of each weighed member to the most similar other, if the algorithm computes it."""
    running_asked: bool = False
    """Whether a round has asked for running statistics; from then on W needs them."""
    typical_step: float | None = None
    """The largest median so far of the distances between a round's updates and the weights sent."""
    accepted: int = 0
    accuracies: tuple[float, ...] = ()
    """Mean validation accuracy, one per evaluated round."""
    stops_asked: int = 0
    finish_reason: str = ""
    sentence: str = ""
    ended: bool = False

    @property
    def is_enrolling(self) -> bool:
        return self.stage is Stage.ENROLLING

    @property
    def is_measuring(self) -> bool:
        return self.stage is Stage.MEASURING

    @property
    def is_training(self) -> bool:
        """Whether a round is open."""
        return self.stage is Stage.TRAINING

    @property
    def is_mixing(self) -> bool:
        """Whether a round is closed and its rows are being made."""
        return self.stage is Stage.AGGREGATING

    @property
    def in_rounds(self) -> bool:
        return self.is_training or self.is_mixing

    def active(self) -> list[Member]:
        """Return active members sorted by name, which is the order of rows everywhere."""
        return [one for one in self.members.values() if one.status is _PRESENT or one.status is _LOST]

    def present(self) -> list[Member]:
        return [member for member in self.members.values() if member.status is _PRESENT]

    def is_ready(self, member: Member, rules: Rules) -> bool:
        """Whether a member may train: no order comes first, or it has carried out that order."""
        return self.needs_no_measure(rules) or self.has_measured(member, rules)

    def has_measured(self, member: Member, rules: Rules) -> bool:
        """Whether its report before training was admitted: statistics or, if none are required, the plain answer."""
        if rules.first_measure is Measure.NONE and not rules.members_compute_rows:
            return member.has_anchor
        return member.statistics is not None

    def needs_no_measure(self, rules: Rules) -> bool:
        """Whether members may train without measuring first: always, or during warm-up."""
        warming = self.round_no < rules.warmup_rounds and not self.is_measuring
        return not rules.asks_first or warming

    def ready(self, rules: Rules) -> list[Member]:
        return [member for member in self.active() if self.is_ready(member, rules)]

    def measured(self) -> tuple[str, ...]:
        """Return active members with statistics, over which W can be computed."""
        return tuple(member.name for member in self.active() if member.statistics is not None)

    def lacks_weights(self, rules: Rules) -> bool:
        """Whether W must be computed (again) before mixing by statistics."""
        if rules.members_compute_rows:
            return False
        uses = rules.strategy.first_measure is not Measure.NONE or self.running_asked
        return uses and bool(self.measured()) and self.weighed_members != self.measured()

    def awaits_measure(self, rules: Rules) -> bool:
        """Whether a present member of the open round must measure again."""
        if self.needs_no_measure(rules) or self.stage.is_over:
            return False
        members = (self.members[name] for name in self.round_members)
        return any(one.status is Status.PRESENT and not self.has_measured(one, rules) for one in members)

    def digest(self) -> str:
        """Return a digest that is equal for equal states, however they were reached."""
        return hashlib.blake2b(repr(_canonical(self)).encode(), digest_size=16).hexdigest()


def _canonical(value: object) -> object:
    """Return nested tuples whose repr is complete: arrays as bytes, dicts sorted by key."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return tuple(_canonical(getattr(value, one.name)) for one in dataclasses.fields(value))
    if isinstance(value, dict):
        return tuple((key, _canonical(one)) for key, one in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(_canonical(one) for one in value)
    return value
