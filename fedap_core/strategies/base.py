"""What a strategy is: which parts stay home, how models are mixed, which objective is trained, what is measured when.

The base class is FedAvg's answers; every algorithm overrides what differs and nothing else. Pure: arrays in, arrays
out. Who is present and when a round closes is the coordinator's business.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedap_core import mixing
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.objectives import ObjectiveSpec
from fedap_core.parts import Part
from fedap_core.robust import Robustness


class Measure(enum.StrEnum):
    """Which statistics a participant computes and sends."""

    NONE = "none"
    BN_INPUTS = "bn-inputs"
    HEAD_INPUTS = "head-inputs"
    RUNNING = "running"


class Phase(enum.StrEnum):
    """How a round is mixed: to make an anchor, by sample counts with local BN, or by the strategy's own weights."""

    WARMUP = "warmup"
    FEDBN = "fedbn"
    MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """What one round is for, and what its updates carry beside the weights."""

    phase: Phase = Phase.MIXED
    measure: Measure = Measure.NONE


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the members' weights are decided from. counts: (n,) training samples; stats: one per member, or none."""

    counts: tuple[int, ...]
    stats: tuple[BnStats, ...] = ()

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise InvalidInput("sample counts", self.counts, "at least one member, each with at least one sample")
        if self.stats and len(self.stats) != len(self.counts):
            raise InvalidInput("statistics", f"{len(self.stats)} sets", f"one for each of {len(self.counts)} members")


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """weights: W (n, n), row i is what member i receives. layers and distances (L, n, n) say why, where they exist."""

    weights: FloatArray
    layers: tuple[str, ...] = ()
    distances: FloatArray | None = None

    def __post_init__(self) -> None:
        mixing.check_mixing(self.weights)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """FedAvg's answers. equal: weigh every member alike instead of by its number of training samples.

    robust, robust_factor, max_share: what limits a single member's influence; see `robust.Robustness`.
    """

    name: ClassVar[str] = ""
    needs_batch_norm: ClassVar[bool] = False
    depends_on_rounds: ClassVar[bool] = False
    """Whether the schedule looks at the total number of rounds: if not, a longer run begins with the shorter one."""

    equal: bool = False
    robust: str = "none"
    robust_factor: float = 2.0
    max_share: float = 0.25

    def __post_init__(self) -> None:
        self.robustness  # noqa: B018 - refuses what it cannot be

    @property
    def robustness(self) -> Robustness:
        """How updates are mixed where one of them may be hostile."""
        return Robustness(rule=self.robust, factor=self.robust_factor, max_share=self.max_share)

    @property
    def looks_at_directions(self) -> bool:
        """Whether members that pull against the others are doubted; see `directions`."""
        return self.robust == "limit"

    def is_personal(self, phase: Phase) -> bool:
        """Whether rows of this phase keep a part of the member's own update, whatever the others give."""
        return phase is Phase.MIXED and self.kept_self_weight is not None

    @property
    def home(self) -> frozenset[Part]:
        """The parts whose tensors never leave the participant."""
        return frozenset()

    @property
    def objective(self) -> ObjectiveSpec:
        """What a participant minimises."""
        return ObjectiveSpec()

    @property
    def first_measure(self) -> Measure:
        """What is measured under the anchor, once, before the first round."""
        return Measure.NONE

    def round_plan(self, round_no: int, rounds: int) -> RoundPlan:
        """What round `round_no` of `rounds` is for."""
        del round_no, rounds
        return RoundPlan()

    def mixing(self, evidence: Evidence) -> Mixing:
        """W of a full round in the phase `mixed`."""
        return Mixing(weights=self._by_counts(evidence))

    def restrict(
        self, weights: FloatArray, *, usable: BoolArray, own: BoolArray, discount: FloatArray | None = None
    ) -> FloatArray:
        """W of a round that closed without everyone; see `mixing.restrict`."""
        return mixing.restrict(weights, usable=usable, own=own, discount=discount, self_weight=self.kept_self_weight)

    @property
    def kept_self_weight(self) -> float | None:
        """The diagonal that restriction keeps, or None where a row is simply rescaled."""
        return None

    def _by_counts(self, evidence: Evidence) -> FloatArray:
        counts = np.asarray(evidence.counts, dtype=np.float64)
        return mixing.mixing_from_counts(np.ones_like(counts) if self.equal else counts)
