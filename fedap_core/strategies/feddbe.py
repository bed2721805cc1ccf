"""FedDBE (Zhang et al. 2023): FedAvg whose participants each add a vector of their own to the inputs of the head.

The vector b takes up what is peculiar to a participant's features, so that the body need not: logits are
head(body(x) + b). b is learnt at home with everything else, and the mean of a batch's features without b is pulled to
a fixed mean. The paper averages that mean over all participants before the first round. Here every participant takes
it from its own training data, under the first delivered model, with batch norm re-estimated: a mean of features never
leaves. What predicts is the delivered model with b folded into the bias of its head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import LocalModel, Objective, Workspace

SHIFT, MEAN = "shift", "mean"


@dataclass(frozen=True, kw_only=True)
class FedDbe(Strategy):
    """strength: the paper's kappa, of the pull on the mean. 0 leaves only the vector b."""

    name: ClassVar[str] = "feddbe"
    label: ClassVar[str] = "FedDBE, own mean"
    paper: ClassVar[str] = "https://arxiv.org/abs/2311.14975"

    strength: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.strength < math.inf:
            raise InvalidInput("feddbe.strength", self.strength, "a finite number >= 0")

    def deliver(self, work: Workspace) -> None:
        if MEAN in work.vectors:
            return
        trial = work.copy(work.model)
        trial.reestimate()
        work.vectors[MEAN] = trial.head_input_mean()
        work.vectors[SHIFT] = work.vectors[MEAN] * 0.0

    def train(self, work: Workspace) -> None:
        shift, mean = work.vectors[SHIFT], work.vectors[MEAN]
        work.model.train(objective=Objective(head_shift=shift, feature_pull=self.strength, feature_mean=mean))

    def hand_over(self, work: Workspace) -> LocalModel:
        model = work.copy(work.model)
        model.fold_shift(work.vectors[SHIFT])
        return model
