"""FedDBE (Zhang et al. 2023): FedAvg in which each participant adds its own vector to the inputs of the head.

The vector b absorbs what is specific to a participant's features, so that the body need not: logits are
head(body(x) + b). b is learnt locally with everything else, and the mean of a batch's features without b is pulled to
a fixed mean: the average, over those who take part in the first round, of their mean features under the first
delivered model, with batch norm re-estimated. Means are sent beside the weights, so the average is known from the
second round on; the first round is trained without the pull. With `own_mean`, features are pulled to the participant's
own mean from the first round, and no mean is sent. The model that predicts is the delivered one with b folded into the
bias of its head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part, TensorSpec
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import LocalModel, Objective, Vector, Workspace

SHIFT, MEAN, OWN = "shift", "mean", "own"

FEATURES = "feddbe.mean"
"""Sent: a participant's mean of the head's inputs. Received: their average."""


@dataclass(frozen=True, kw_only=True)
class FedDbe(Strategy):
    """strength: the paper's kappa, the strength of the pull on the mean; 0 leaves only the vector b. own_mean: pull
    features to the participant's own mean instead of the average."""

    name: ClassVar[str] = "feddbe"
    label: ClassVar[str] = "FedDBE"
    paper: ClassVar[str] = "https://arxiv.org/abs/2311.14975"

    strength: float = 1.0
    own_mean: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.strength < math.inf:
            raise InvalidInput("feddbe.strength", self.strength, "a finite number >= 0")

    def require_continuous(self) -> None:
        if not self.own_mean:
            expected = "barrier: the mean of feddbe is an average over a whole round"
            raise InvalidInput("mode", "continuous", expected, "Use mode = barrier, or own_mean = true.")

    def beside(self, spec: ModelSpec) -> tuple[TensorSpec, ...]:
        if self.own_mean:
            return ()
        return (TensorSpec(name=FEATURES, shape=(spec.features,), part=Part.BODY, trainable=False),)

    def deliver(self, work: Workspace) -> None:
        if MEAN in work.vectors:
            return
        if not self.own_mean and _is_known(average := work.received(FEATURES), own=work.vectors.get(OWN)):
            work.vectors[MEAN] = average
            work.vectors.setdefault(SHIFT, average * 0.0)
            return
        if OWN not in work.vectors:
            trial = work.copy(work.model)
            trial.reestimate()
            work.vectors[OWN] = trial.head_input_mean()
            work.vectors.setdefault(SHIFT, work.vectors[OWN] * 0.0)
        if self.own_mean:
            work.vectors[MEAN] = work.vectors[OWN]
        else:
            work.send(FEATURES, work.vectors[OWN])

    def train(self, work: Workspace) -> None:
        if SHIFT not in work.vectors:  # nothing was delivered: this is the first round of the participant's own model
            self.deliver(work)
        objective = Objective(head_shift=work.vectors[SHIFT])
        if MEAN in work.vectors:
            mean = work.vectors[MEAN]
            objective = Objective(head_shift=work.vectors[SHIFT], feature_pull=self.strength, feature_mean=mean)
        work.model.train(objective=objective)

    def hand_over(self, work: Workspace) -> LocalModel:
        model = work.copy(work.model)
        if SHIFT in work.vectors:
            model.fold_shift(work.vectors[SHIFT])
        return model


def _is_known(average: Vector, *, own: Vector | None) -> bool:
    """Whether the average has arrived. Zeros are sent before anybody has trained; a participant that gets nothing of
    others goes on from its own values, with the mean that it has sent."""
    return _differ(average, average * 0.0) and (own is None or _differ(average, own))


def _differ(one: Vector, other: Vector) -> bool:
    difference = one - other
    return float(difference.dot(difference)) > 0.0
