"""Common parts of messages: who may send them, the steps of a run, scores, tensor sets.

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
"""The coordinator's orders, in the sequence possible within one round."""

MOST_WEIGHTS = 64
"""Most entries of a row of W in a message, the largest ones; a row over thousands of members would not fit a header."""

REPORTS = ("stats", "update", "goodbye")
"""The participant's reports: each answers the order at the same index in ORDERS."""

PLACE_IN_ROUND = {kind: place for kinds in (ORDERS, REPORTS) for place, kind in enumerate(kinds)}
"""The index of every order and report; looked up for every member at every event."""


class Message(Record):
    """Anything that can be sent."""

    __slots__ = ()
    KIND: ClassVar[str]
    SENDERS: ClassVar[frozenset[Side]]


@record
class Step(Record):
    """One order or report of a run, as named in heartbeats.

    kind: kind of the order or report.
    round_no: its round.
    """

    kind: Annotated[str, one_of(*ORDERS, *REPORTS)]
    round_no: RoundNo

    @property
    def place(self) -> tuple[int, int]:
        """Position of the step in a run; an order and its report share a place."""
        return self.round_no, PLACE_IN_ROUND[self.kind]


@record
class Score(Record):
    """Scores of one model on one part of the data; never results of single samples.

    model: `delivered` is the mixed model before further training, `trained` the one after it, in a `goodbye` the
        sender's own last one, if it did not use the weights of `finish`; `handed-over` the one to keep if the run ended
        now, if the algorithm uses another one for that; `alone` the one trained on the participant's own data only, in
        a `goodbye` whose sender shares that score.
    split: the part of the participant's data.
    samples: number of samples.
    correct: number of samples that were classified correctly.
    loss: mean loss; nil if it is not finite.
    macro_f1: mean F1 over classes.
    balanced_accuracy: mean recall over classes; nil if it was not computed, as for all fields below.
    auroc: mean area under the ROC curve, each class against the rest; nil if there is only one class.
    sensitivity: mean sensitivity at a specificity of 95 %, each class against the rest; nil if there is only one class.
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
    weight: its share; the shares of a model sum to 1.
    """

    member: PeerName
    weight: Annotated[float, real(0.0, 1.0)]


PeerWeights = Annotated[tuple[PeerWeight, ...], Many(Nested(PeerWeight), MOST_WEIGHTS)]
Scores = Annotated[tuple[Score, ...], Many(Nested(Score), 6)]
OptionalTensors = Annotated[TensorSet | None, Tensors(optional=True)]
RequiredTensors = Annotated[TensorSet, Tensors(optional=False)]
