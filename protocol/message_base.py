"""What every message has in common: who may send it, the steps of a run, scores, tensor sets.

This file must not know any message by name beyond the kinds of orders and reports.
"""

from __future__ import annotations

import enum
from typing import Annotated, ClassVar

from protocol.carriage import Tensors
from protocol.contracts import Many, Nested, Record, one_of, real, record
from protocol.errors import InvalidField
from protocol.plan import Count, PeerName, RoundNo, StrategyName
from protocol.tensors import TensorSet


class Side(enum.StrEnum):
    """The two sides of every conversation."""

    PARTICIPANT = "participant"
    COORDINATOR = "coordinator"

    @property
    def other(self) -> Side:
        return Side.COORDINATOR if self is Side.PARTICIPANT else Side.PARTICIPANT


FROM_PARTICIPANT = frozenset({Side.PARTICIPANT})
FROM_COORDINATOR = frozenset({Side.COORDINATOR})
FROM_BOTH = frozenset(Side)

ORDERS = ("anchor", "train", "finish")
"""What a coordinator asks for, in the order in which it can ask within one round."""

MOST_WEIGHTS = 64
"""Of a row of W in a message, the heaviest; a row over thousands of members would not fit a header."""

REPORTS = ("stats", "update", "goodbye")
"""What a participant answers: each to the order at the same place of ORDERS."""


class Message(Record):
    """Anything that can be sent."""

    __slots__ = ()
    KIND: ClassVar[str]
    SENDERS: ClassVar[frozenset[Side]]


@record
class Step(Record):
    """One order or report of a run, by name: what a heartbeat has or wants.

    kind: kind of the order or report.
    round_no: its round.
    """

    kind: Annotated[str, one_of(*ORDERS, *REPORTS)]
    round_no: RoundNo

    @property
    def place(self) -> tuple[int, int]:
        """Where the step stands in a run; an order and its report share a place."""
        return self.round_no, (ORDERS if self.kind in ORDERS else REPORTS).index(self.kind)


@record
class Score(Record):
    """How good one model was on one part of the data; never which sample was wrong.

    model: `delivered` is the mixed model before further training, `trained` the one after it, `handed-over` the one to
        keep if the run ended now, where the algorithm has another for that; `alone` the one that was trained on the
        participant's own data only, in a `goodbye` whose sender shares it.
    split: the part of the participant's data.
    samples: how many samples.
    correct: how many of them were classified correctly.
    loss: mean loss; nil when it is not finite.
    macro_f1: mean of the classes' F1.
    balanced_accuracy: mean of the classes' recall; nil when it was not computed, as in all that follow.
    auroc: mean of the classes' area under the ROC curve, each against the rest; nil when there is one class only.
    sensitivity: mean of the classes' sensitivity at a specificity of 95 %; nil when there is one class only.
    calibration_error: expected calibration error, in 15 bins of equal width.
    """

    model: StrategyName
    split: Annotated[str, one_of("train", "validation", "test")]
    samples: Count
    correct: Count
    loss: Annotated[float, real(0.0)] | None
    macro_f1: Annotated[float, real(0.0, 1.0)]
    balanced_accuracy: Annotated[float, real(0.0, 1.0)] | None = None
    auroc: Annotated[float, real(0.0, 1.0)] | None = None
    sensitivity: Annotated[float, real(0.0, 1.0)] | None = None
    calibration_error: Annotated[float, real(0.0, 1.0)] | None = None

    def _check(self) -> None:
        if self.correct > self.samples:
            raise InvalidField("correct", self.correct, f"at most the {self.samples} samples")


@record
class PeerWeight(Record):
    """How much of a mixed model comes from one member.

    member: whose update.
    weight: its share; all of a model's are 1 together.
    """

    member: PeerName
    weight: Annotated[float, real(0.0, 1.0)]


PeerWeights = Annotated[tuple[PeerWeight, ...], Many(Nested(PeerWeight), MOST_WEIGHTS)]
Scores = Annotated[tuple[Score, ...], Many(Nested(Score), 6)]
OptionalTensors = Annotated[TensorSet | None, Tensors(optional=True)]
RequiredTensors = Annotated[TensorSet, Tensors(optional=False)]
