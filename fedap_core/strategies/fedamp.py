"""FedAMP (Huang et al. 2021): members with similar models attend to each other more.

Each member has a personal model w_i. The coordinator sends it u_i = self_weight w_i + sum_j xi_ij w_j with xi_ij
proportional to A'(||w_i - w_j||^2), where A(x) = 1 - exp(-x / sigma), and training pulls w_i towards u_i. Distances are
those of this round's updates, so the weights change in every round and a run records no W. sigma is in units of the
median squared distance, so that it does not depend on the model's size. Two simplifications: the own weight is an
option instead of what the others leave, and the pull is constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedap_core import mixing
from fedap_core.arrays import FloatArray
from fedap_core.comparison import squared_distances_of
from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies.base import Evidence, Mixing, Phase, Strategy
from fedap_core.workspace import LocalModel, Objective, Workspace

PERSONAL = "personal"


@dataclass(frozen=True, kw_only=True)
class FedAmp(Strategy):
    """self_weight: the share of w_i in u_i. sigma: a smaller value favours the nearest. strength: that of the pull
    towards u_i, the paper's lambda / alpha_k."""

    name: ClassVar[str] = "fedamp"
    label: ClassVar[str] = "FedAMP"
    paper: ClassVar[str] = "https://arxiv.org/abs/2007.03797"
    needs_barrier: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = (PERSONAL,)

    self_weight: float = 0.5
    sigma: float = 1.0
    strength: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.self_weight <= 1.0:
            raise InvalidInput("fedamp.self_weight", self.self_weight, "a number in [0, 1]")
        if not 0.0 < self.sigma < math.inf:
            raise InvalidInput("fedamp.sigma", self.sigma, "a finite number > 0")
        if not 0.0 <= self.strength < math.inf:
            raise InvalidInput("fedamp.strength", self.strength, "a finite number >= 0")

    @property
    def kept_self_weight(self) -> float | None:
        return self.self_weight

    def mixing(self, evidence: Evidence) -> Mixing:
        members = len(evidence.counts)
        alike = np.ones((members, members)) - np.eye(members)
        return Mixing(weights=mixing.mixing_from_distances(alike, self_weight=self.self_weight))

    def compares(self, phase: Phase) -> frozenset[Part]:
        del phase
        return frozenset(Part)

    def affinity(self, products: FloatArray) -> FloatArray:
        squared = squared_distances_of(products)
        others = ~np.eye(len(squared), dtype=np.bool_)
        typical = float(np.median(squared[others])) if others.any() else 0.0
        if typical <= 0.0:
            return np.ones_like(squared)
        nearest = np.where(others, squared, np.inf).min(axis=1, keepdims=True)  # a factor per row, against underflow
        return np.asarray(np.exp(-np.maximum(squared - nearest, 0.0) / (self.sigma * typical)))

    def train(self, work: Workspace) -> None:
        received = work.model.values.clone()
        work.model.copy_from(work.models[PERSONAL])
        work.model.train(objective=Objective(pull=self.strength, towards=received))
        work.models[PERSONAL].copy_from(work.model)

    def hand_over(self, work: Workspace) -> LocalModel:
        return work.models[PERSONAL]
