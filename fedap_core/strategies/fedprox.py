"""FedProx (Li et al. 2020): FedAvg with the local objective + mu / 2 * ||w - w_received||^2.

The squared norm is over all trainable parameters. mu = 0 is exactly FedAvg.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import Objective, Workspace


@dataclass(frozen=True, kw_only=True)
class FedProx(Strategy):
    """mu: how strongly a participant is pulled towards the weights it received this round."""

    name: ClassVar[str] = "fedprox"
    label: ClassVar[str] = "FedProx"
    paper: ClassVar[str] = "https://arxiv.org/abs/1812.06127"

    mu: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.mu < math.inf:
            raise InvalidInput("fedprox.mu", self.mu, "a finite number >= 0")

    def train(self, work: Workspace) -> None:
        work.model.train(objective=Objective(pull=self.mu))
