"""Ditto (Li et al. 2021): a global model as in FedAvg, and a personal one that is pulled towards it.

In every round a participant trains the delivered model x, as in FedAvg, and its personal model v by
v <- v - eta (grad L(v) + strength (v - x)), with x as delivered. v is never sent, and makes the predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import LocalModel, Objective, Vector, Workspace

PERSONAL = "personal"


def require_strength(name: str, strength: float) -> None:
    """Refuse an invalid strength of a pull."""
    if not 0.0 <= strength < math.inf:
        raise InvalidInput(f"{name}.strength", strength, "a finite number >= 0")


def train_personal(work: Workspace, delivered: Vector, *, strength: float, to_mean: bool = False) -> None:
    """Train v for a round: the plan's epochs, pulled towards the delivered model."""
    work.models[PERSONAL].train(objective=Objective(pull=strength, towards=delivered), to_mean=to_mean)


@dataclass(frozen=True, kw_only=True)
class Ditto(Strategy):
    """strength: the paper's lambda. 0 trains v alone; a larger value keeps v closer to the global model."""

    name: ClassVar[str] = "ditto"
    label: ClassVar[str] = "Ditto"
    paper: ClassVar[str] = "https://arxiv.org/abs/2012.04221"
    keeps: ClassVar[tuple[str, ...]] = (PERSONAL,)

    strength: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_strength(self.name, self.strength)

    def train(self, work: Workspace) -> None:
        delivered = work.model.values.clone()
        work.model.train()
        train_personal(work, delivered, strength=self.strength)

    def hand_over(self, work: Workspace) -> LocalModel:
        return work.models[PERSONAL]

    def passes(self, epochs: int) -> int:
        return 2 * epochs
