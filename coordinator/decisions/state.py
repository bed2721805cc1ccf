"""The durable state of a run, which survives a crash: data and queries.

It changes by facts alone (`history.apply`). Who is connected right now is `roster`'s and dies with the process. Tensors
are named, never held; W is held, because who is missing changes it.
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
    """How a member stands. The first two are active: rows are mixed for them and their updates count."""

    PRESENT = "present"
    LOST = "lost"
    LEFT = "left"
    EXCLUDED = "excluded"
    REMOVED = "removed"
    """Its key was taken off the list; listed again, it may come back."""


@dataclass(kw_only=True)
class Member:
    """One participant of the run."""

    name: str
    identity: str
    train_samples: int
    test_samples: int
    status: Status = Status.PRESENT
    first_samples: int = 0
    """Training samples that it joined with; later counts must be near."""
    strikes: int = 0
    instance: str = ""
    """Digest of the token of the process that has this place."""
    held_since: float = 0.0
    earlier_strikes: dict[str, int] = field(default_factory=dict)
    """Of processes that had it before, by their digests; only where no key says who somebody is."""
    contested: int = 0
    """Hellos of other processes that were refused, as far as told, and when it was told last."""
    contested_at: float | None = None
    admitted: int = 0
    """Updates admitted since its last strike, or since one was forgiven."""
    has_anchor: bool = False
    """Whether it has answered an order to start from the anchor."""
    statistics: BlobRef | None = None
    """Admitted statistics, by which W is computed."""
    row: tuple[tuple[str, int], ...] = ()
    """The row of W that it requested, in a sealed run; from which statistics, and for which phase."""
    row_of: tuple[BlobRef, ...] = ()
    row_phase: str = ""
    update_round: int | None = None
    """Round of the latest admitted update that can still be mixed."""
    accepted_at: int = 0
    """What the run's count of admitted updates was when that one came."""
    distance: float | None = None
    trend: FloatArray | None = field(default=None, compare=False)
    """The direction of its updates, over several rounds."""
    doubt: float = 0.0
    """How much of it is withheld from others because it pulls against what they agree on."""
    accuracy: float | None = None
    """On its validation samples, as last reported."""
    order: Order | None = None
    """What it is to do, or will be told to as soon as it can hear it."""
    earlier: Order | None = None
    """An order that `order` replaced before it was answered: a straggler still works on it."""
    answered: Step | None = None
    """The latest report that was admitted or refused: it need not come again."""
    answer_due: bool = False
    """Its latest report calls for a mix of its own, not made yet."""
    said_goodbye: bool = False
    is_stalled: bool = False
    """It was there, and a round without a deadline closed without it: nobody waits for it before it reports again."""

    @property
    def is_active(self) -> bool:
        return self.status is Status.PRESENT or self.status is Status.LOST

    @property
    def is_barred(self) -> bool:
        """Whether it was excluded, and nobody who had its name before can have it back."""
        return self.status is Status.EXCLUDED and not self.earlier_strikes

    @property
    def waits_alone(self) -> bool:
        """Whether a mix of its own was promised to it and not answered yet: a crash may have lost that mix."""
        row = self.order.weights.row if self.order is not None and self.order.weights is not None else None
        return row is not None and row.alone and not self.has_answered(self.order)

    def has_answered(self, order: Order | None) -> bool:
        """Whether the report to this order was judged, whatever the verdict; there is none to no order."""
        return order is None or (self.answered is not None and self.answered.place >= order.place)


@dataclass(frozen=True, kw_only=True)
class Leaver:
    """A member as it was when it left. took_part: in the open round."""

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
        """(giver, weight) of a receiver's row, the heaviest first and without those who gave nothing."""
        place = next(index for index, row in enumerate(self.receivers) if row.member == member)
        given = zip((giver.member for giver in self.givers), map(float, self.weights[place]), strict=True)
        return tuple(sorted((one for one in given if one[1] > 0.0), key=lambda one: (-one[1], one[0])))


@dataclass(kw_only=True)
class State:
    """Everything that facts have told."""

    stage: Stage = Stage.ENROLLING
    began_at: float | None = None
    members: dict[str, Member] = field(default_factory=dict)
    """By name, in the order of names."""
    leavers: dict[str, Leaver] = field(default_factory=dict)
    """Who left during the open round, or while it was measured, and may come back to its place until that is over."""
    allowed: tuple[tuple[str, str], ...] | None = None
    enrolled: bool = False
    round_no: int = 0
    """The round that is open or being mixed; in continuous mode the one that everybody started at."""
    round_members: tuple[str, ...] = ()
    opened_at: float = 0.0
    """When waiting began: for members to enrol, to measure, to report; in continuous mode the latest update."""
    paused_at: float | None = None
    paused_reason: str = ""
    recipe: Recipe | None = None
    """How the rows of the current orders (or of the final one) were mixed, all members together."""
    anchor: WeightsRef | None = None
    anchor_recipe: Recipe | None = None
    weighed_members: tuple[str, ...] = ()
    weighed: FloatArray | None = None
    similarity: Mapping[str, float] = field(default_factory=dict)
    """Of each weighed member to the one most like it, where the algorithm tells."""
    running_asked: bool = False
    """Whether a round has asked for running statistics: from then on W needs them."""
    typical_step: float | None = None
    """The largest median, over all rounds, of how far a round's updates went from what was sent."""
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
        """Sorted by name: the order of rows everywhere."""
        return [member for member in self.members.values() if member.is_active]

    def present(self) -> list[Member]:
        return [member for member in self.active() if member.status is Status.PRESENT]

    def is_ready(self, member: Member, rules: Rules) -> bool:
        """Whether it may train: nothing has to be asked of it first, or it has answered that."""
        return self.needs_no_measure(rules) or self.has_measured(member, rules)

    def has_measured(self, member: Member, rules: Rules) -> bool:
        """Whether what is asked before training was admitted: statistics or, where none are asked for, an answer."""
        if rules.first_measure is Measure.NONE and not rules.members_compute_rows:
            return member.has_anchor
        return member.statistics is not None

    def needs_no_measure(self, rules: Rules) -> bool:
        """Whether members may train without having measured anything: always, or during warm-up."""
        warming = self.round_no < rules.warmup_rounds and not self.is_measuring
        return not rules.asks_first or warming

    def ready(self, rules: Rules) -> list[Member]:
        return [member for member in self.active() if self.is_ready(member, rules)]

    def measured(self) -> tuple[str, ...]:
        """Active members with statistics: those W can be computed over."""
        return tuple(member.name for member in self.active() if member.statistics is not None)

    def lacks_weights(self, rules: Rules) -> bool:
        """Whether W must be computed (again) before anything is mixed by statistics."""
        if rules.members_compute_rows:
            return False
        uses = rules.strategy.first_measure is not Measure.NONE or self.running_asked
        return uses and bool(self.measured()) and self.weighed_members != self.measured()

    def awaits_measure(self, rules: Rules) -> bool:
        """Whether somebody who takes part in the open round must measure again and can be expected to."""
        if self.needs_no_measure(rules) or self.stage.is_over:
            return False
        members = (self.members[name] for name in self.round_members)
        return any(one.status is Status.PRESENT and not self.has_measured(one, rules) for one in members)

    def digest(self) -> str:
        """Equal for equal states, whatever way led there."""
        return hashlib.blake2b(repr(_canonical(self)).encode(), digest_size=16).hexdigest()


def _canonical(value: object) -> object:
    """Nested tuples whose text says everything, arrays by their bytes and dicts in the order of their keys."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return tuple(_canonical(getattr(value, one.name)) for one in dataclasses.fields(value))
    if isinstance(value, dict):
        return tuple((key, _canonical(one)) for key, one in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(_canonical(one) for one in value)
    return value
