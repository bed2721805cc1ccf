"""FedAvgM (Hsu et al. 2019) and FedAdam (Reddi et al. 2021): an optimiser steps along the mean step of a round.

With x the model at the start of a round and y the average of the updates, y - x serves as a negative gradient. The
optimiser runs at every participant on the delivered average: while all take part, all keep the same x and moments, and
only the average is sent. A participant that missed a delivery continues with the moments it has. Running statistics of
batch norm are simply averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import Vector, Workspace

START, MEAN, SQUARES = "start", "mean", "squares"


def require_momentum(name: str, momentum: float) -> None:
    """Refuse an invalid momentum from one round to the next."""
    if not 0.0 <= momentum < 1.0:
        raise InvalidInput(f"{name}.momentum", momentum, "a number in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class FedAvgM(Strategy):
    """server_rate: step size along the momentum. momentum: 0, with a rate of 1, is FedAvg."""

    name: ClassVar[str] = "fedavgm"
    label: ClassVar[str] = "FedAvgM"
    paper: ClassVar[str] = "https://arxiv.org/abs/1909.06335"
    needs_barrier: ClassVar[bool] = True

    server_rate: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.server_rate < math.inf:
            raise InvalidInput(f"{self.name}.server_rate", self.server_rate, "a finite number > 0")
        require_momentum(self.name, self.momentum)

    @property
    def rounds_in_a_step(self) -> float:
        return max(self.server_rate / (1.0 - self.momentum), 1.0)

    @property
    def kept_vectors(self) -> int:
        return 2

    def deliver(self, work: Workspace) -> None:
        if START in work.vectors:
            start = work.vectors[START]
            work.model.assign(start + self.server_rate * self._direction(work, work.model.values - start))
        work.vectors[START] = work.model.values.clone()

    def _direction(self, work: Workspace, step: Vector) -> Vector:
        if MEAN in work.vectors:
            step = self.momentum * work.vectors[MEAN] + step
        work.vectors[MEAN] = step
        return step


@dataclass(frozen=True, kw_only=True)
class FedAdam(FedAvgM):
    """momentum, second_momentum: the paper's beta1 and beta2. tau: a smaller value is more adaptive. The mean square v
    starts at 0 (the paper: at least tau squared)."""

    name: ClassVar[str] = "fedadam"
    label: ClassVar[str] = "FedAdam"
    paper: ClassVar[str] = "https://arxiv.org/abs/2003.00295"

    server_rate: float = 0.01
    second_momentum: float = 0.99
    tau: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.second_momentum < 1.0:
            raise InvalidInput("fedadam.second_momentum", self.second_momentum, "a number in [0, 1)")
        if not 0.0 < self.tau < math.inf:
            raise InvalidInput("fedadam.tau", self.tau, "a finite number > 0")

    @property
    def rounds_in_a_step(self) -> float:
        return 1.0  # the length of a step is the server's rate, whatever that of the updates

    @property
    def kept_vectors(self) -> int:
        return 3

    def _direction(self, work: Workspace, step: Vector) -> Vector:
        mean, squares = (1.0 - self.momentum) * step, (1.0 - self.second_momentum) * step * step
        if MEAN in work.vectors:
            mean = mean + self.momentum * work.vectors[MEAN]
            squares = squares + self.second_momentum * work.vectors[SQUARES]
        work.vectors[MEAN], work.vectors[SQUARES] = mean, squares
        return mean / (squares.sqrt() + self.tau)
