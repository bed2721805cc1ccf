"""FedAP (Lu et al. 2022) and its variants: BN stays local, and W follows from the similarity of members' statistics.

FedAP measures the inputs of all BN layers under an anchor model, d-FedAP only those of the classification layer.
f-FedAP needs no anchor: half of its rounds run as FedBN, then BN running statistics are used instead. W is computed
once, and again when membership changes. `self_weight` is the paper's lambda; 1 is Base with local BN, 0 uses only the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedap_core import distances, mixing, similarity
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.neighbours import NearestMembers
from fedap_core.parts import Part
from fedap_core.strategies.base import Evidence, Measure, Mixing, Phase, RoundPlan
from fedap_core.strategies.fedbn import FedBn

FEDBN = Phase("fedbn")
"""Rounds of f-FedAP before statistics are available: mixed by sample counts."""

CLOSEST = 0.25
"""Least distance under a robust rule, as a share of the typical distance: statistics can be copied."""


@dataclass(frozen=True, kw_only=True)
class FedAp(FedBn):
    """psi_i <- sum_j w_ij psi_j with w_ii = self_weight and w_ij proportional to 1 / d_ij (eq. 2, 6-8).

    max_peer_weight: the most that one member gives another; 1 is the paper's W.
    min_similarity: a member less similar than this to all others keeps its own model and gives nothing; 0 isolates
    nobody (see `similarity`).
    neighbours: how many of the most similar members with a usable update a row takes from; 0: all.
    full_covariance: compare layers by eq. 4 instead of its diagonal approximation, eq. 5 (C x C values per layer).
    """

    name: ClassVar[str] = "fedap"
    label: ClassVar[str] = "FedAP"
    paper: ClassVar[str] = "https://arxiv.org/abs/2112.00734"

    self_weight: float = 0.5
    max_peer_weight: float = 1.0
    min_similarity: float = 0.0
    neighbours: int = 0
    full_covariance: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("self_weight", "max_peer_weight", "min_similarity"):
            value = getattr(self, field)
            if not 0.0 <= value <= 1.0:
                raise InvalidInput(f"{self.name}.{field}", value, "a number in [0, 1]")
        if self.neighbours < 0:
            raise InvalidInput(f"{self.name}.neighbours", self.neighbours, "a number of members from 1, or 0 for all")

    @property
    def least_similarity(self) -> float:
        return self.min_similarity

    @property
    def first_measure(self) -> Measure:
        return Measure.BN_INPUTS

    def measures_covariance(self, measure: Measure) -> bool:
        return self.full_covariance and measure is not Measure.RUNNING

    @property
    def kept_self_weight(self) -> float | None:
        return self.self_weight

    @property
    def _diagonal(self) -> float:
        """The diagonal of W, equal to what `restrict` keeps."""
        kept = self.kept_self_weight
        return self.self_weight if kept is None else kept

    @property
    def most_givers(self) -> int:
        return self.neighbours

    def narrowed(self, weights: FloatArray, *, usable: BoolArray, places: Sequence[int] | None = None) -> FloatArray:
        if not self.neighbours:
            return weights
        rows = range(len(weights)) if places is None else places
        return mixing.keep_nearest(weights, rows, usable=usable, neighbours=self.neighbours)

    def nearest(self, evidence: Evidence) -> NearestMembers | None:
        by_row = self.max_peer_weight == 1.0 and self.min_similarity == 0.0 and not self.full_covariance
        if not (self.neighbours and by_row and self.robust == "none" and type(self).mixing is FedAp.mixing):
            return None
        if len(evidence.stats) <= self.neighbours + 1:
            return None
        return NearestMembers.of(evidence.stats, self_weight=self._diagonal, neighbours=self.neighbours)

    def restrict(
        self,
        weights: FloatArray,
        *,
        usable: BoolArray,
        own: BoolArray,
        discount: FloatArray | None = None,
        places: Sequence[int] | None = None,
    ) -> FloatArray:
        restricted = super().restrict(weights, usable=usable, own=own, discount=discount, places=places)
        if self.max_peer_weight == 1.0:
            return restricted
        cap = self.max_peer_weight  # rescaling may have exceeded it
        return mixing.cap_peer_weight(restricted, max_peer_weight=cap, places=places)

    def mixing(self, evidence: Evidence) -> Mixing:
        if not evidence.stats:
            raise InvalidInput("statistics", "none", f"one set per member ({self.name} mixes by their distances)")
        measured = distances.full_distances if self.full_covariance else distances.diagonal_distances
        per_layer = measured(evidence.stats)
        total = measured_total = distances.total_distance(per_layer)
        if self.robust != "none":
            total = mixing.floored_distances(total, floor=CLOSEST)
        weights = mixing.mixing_from_distances(total, self_weight=self._diagonal)
        alike = similarity.nearest_similarity(similarity.similarities(measured_total, evidence.stats))
        weights = similarity.isolate(weights, alike < self.min_similarity)
        weights = mixing.cap_peer_weight(weights, max_peer_weight=self.max_peer_weight)
        layers = evidence.stats[0].layer_names
        return Mixing(weights=weights, layers=layers, distances=per_layer, similarity=alike)


@dataclass(frozen=True, kw_only=True)
class SharedBnFedAp(FedAp):
    """FedAP with BN layers also mixed by W: the paper's ablation SBN."""

    name: ClassVar[str] = "fedap-sbn"
    label: ClassVar[str] = "FedAP, shared BN"

    @property
    def home(self) -> frozenset[Part]:
        return frozenset()


@dataclass(frozen=True, kw_only=True)
class DFedAp(FedAp):
    """FedAP with W from the inputs of the classification layer only."""

    name: ClassVar[str] = "d-fedap"
    label: ClassVar[str] = "d-FedAP"

    @property
    def first_measure(self) -> Measure:
        return Measure.HEAD_INPUTS


@dataclass(frozen=True, kw_only=True)
class FFedAp(FedAp):
    """Rounds 0 .. R//2 - 1 train as FedBN; the last of them measures running statistics and is already mixed by W."""

    name: ClassVar[str] = "f-fedap"
    label: ClassVar[str] = "f-FedAP"
    depends_on_rounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.full_covariance:  # refuse now, not after half of the rounds
            raise InvalidInput(
                f"{self.name}.full_covariance", True, "false: BN running statistics have no covariance", "Use fedap."
            )

    @property
    def first_measure(self) -> Measure:
        return Measure.NONE

    @property
    def round_measure(self) -> Measure:
        return Measure.RUNNING

    def round_plan(self, round_no: int, rounds: int) -> RoundPlan:
        measured_in = max(rounds // 2 - 1, 0)
        if round_no < measured_in:
            return RoundPlan(phase=FEDBN)
        return RoundPlan(measure=self.round_measure if round_no == measured_in else Measure.NONE)

    def mixing_of(self, phase: Phase, evidence: Evidence) -> Mixing:
        return FedBn.mixing(self, evidence) if phase is FEDBN else super().mixing_of(phase, evidence)
