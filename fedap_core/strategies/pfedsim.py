"""pFedSim (Tan et al. 2023): FedAvg for the first half of the rounds, then bodies mixed by similarity of the heads.

In the second half w_ij is proportional to -ln(1 - max(0, cos(h_i, h_j))) of the heads h in this round's updates, and
each participant keeps its own head. Heads are therefore sent in all rounds; the coordinator needs them to compare. The
mixed head that is delivered with the body is not used. Weights change in every round, so a run records no W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedap_core import mixing
from fedap_core.arrays import FloatArray
from fedap_core.comparison import cosines_of
from fedap_core.parts import Part
from fedap_core.strategies.base import Evidence, Mixing, Phase, RoundPlan, Strategy
from fedap_core.workspace import Workspace

COMMON = Phase("common")
"""Rounds that produce one model for all, by sample counts."""

OWN_HEAD = "own-head"

MOST_ALIKE = 0.9999
"""Similarity of a head with itself or a twin, for which the logarithm would be infinite."""


@dataclass(frozen=True, kw_only=True)
class PFedSim(Strategy):
    """No options of its own."""

    name: ClassVar[str] = "pfedsim"
    label: ClassVar[str] = "pFedSim"
    paper: ClassVar[str] = "https://arxiv.org/abs/2305.15706"
    needs_barrier: ClassVar[bool] = True
    depends_on_rounds: ClassVar[bool] = True

    def round_plan(self, round_no: int, rounds: int) -> RoundPlan:
        return RoundPlan(phase=COMMON if round_no < rounds // 2 else Phase.MIXED)

    def is_personal(self, phase: Phase) -> bool:
        return phase is Phase.MIXED

    def mixing_of(self, phase: Phase, evidence: Evidence) -> Mixing:
        return Mixing(weights=self.by_counts(evidence)) if phase is COMMON else super().mixing_of(phase, evidence)

    def mixing(self, evidence: Evidence) -> Mixing:
        return Mixing(weights=mixing.mixing_from_counts(np.ones(len(evidence.counts))))

    def compares(self, phase: Phase) -> frozenset[Part]:
        return frozenset({Part.HEAD}) if phase is Phase.MIXED else frozenset()

    def affinity(self, products: FloatArray) -> FloatArray:
        alike = cosines_of(products)
        np.fill_diagonal(alike, MOST_ALIKE)
        return np.asarray(-np.log1p(-np.clip(alike, 0.0, MOST_ALIKE)))

    @property
    def kept_vectors(self) -> int:
        return 1

    def deliver(self, work: Workspace) -> None:
        if OWN_HEAD in work.vectors:
            head = work.model.mask({Part.HEAD})
            work.model.assign(work.model.values * (1.0 - head) + work.vectors[OWN_HEAD])

    def train(self, work: Workspace) -> None:
        work.model.train()
        if self.round_plan(work.round_no, work.rounds).phase is Phase.MIXED:
            work.vectors[OWN_HEAD] = work.model.values * work.model.mask({Part.HEAD})
