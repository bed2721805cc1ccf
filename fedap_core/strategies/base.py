"""The strategy interface: which parts stay local, how models are mixed, and what a participant does with them.

The base class implements FedAvg; every algorithm overrides only what differs. No torch here: the coordinator imports
all strategies. The coordinator decides who is present and when a round closes.

To add an algorithm, write one file in this folder and one line in `STRATEGIES`. Decide, in this order:

1.  `home`: the parts (body, head, batch norm) whose tensors never leave a participant. `beside`: the algorithm's own
    tensors that are sent with the weights in both directions and mixed by the same W.
2.  `mixing`: W, from sample counts or from statistics (`first_measure`, `round_measure`); `round_plan` and `mixing_of`
    if rounds of one run are mixed in different ways. A phase is any name the strategy gives it. `compares` and
    `affinity` if weights depend on the values of a round's updates.
3.  The local work, by overriding any of four methods, each of which gets a `Workspace`:
    -   `begin`: once, before the first round; create the vectors to keep.
    -   `deliver`: whenever weights have been delivered; they are already in `work.model`.
    -   `train`: one round; the default is `work.model.train()`.
    -   `hand_over`: the model that predicts, is evaluated and exported; the default is `work.model`.
    `keeps` names further local models (each starts as a copy of the initial model), `work.vectors` holds vectors.
    Both are saved with every finished round, so a killed participant resumes with the same bits. Anything else, such as
    an attribute of the strategy, is lost: strategies are frozen and shared by all participants of a process.
4.  `passes`: how often a round goes through the training data, if that is not the plan's number of epochs.

Randomness comes from the workspace (`batches`, `train`) and derives from seed, participant and round. A participant
sends only the shared tensors of `work.model`, those in `beside` and the statistics that the strategy names.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fedap_core import mixing
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.comparison import UpdateComparison
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.neighbours import NearestMembers
from fedap_core.parts import Part, TensorSpec
from fedap_core.robust import Mixture, Robustness
from fedap_core.workspace import LocalModel, Workspace

NAME_PATTERN = r"[a-z][a-z0-9-]{0,31}"
"""Names of phases and measures; the protocol accepts any such name."""


class OpenName(enum.StrEnum):
    """An enumeration that strategies can extend: `Phase("fedbn")` creates a member once and then returns it."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str) or re.fullmatch(NAME_PATTERN, value) is None:
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = value.upper(), value
        cls._value2member_map_[value] = member
        return member


class Measure(OpenName):
    """Which statistics a participant computes and sends; `fedap_core.measures` defines the contents of each."""

    NONE = "none"
    BN_INPUTS = "bn-inputs"
    HEAD_INPUTS = "head-inputs"
    RUNNING = "running"


class Phase(OpenName):
    """How a round is mixed. Strategies may define further phases.

    warmup: like FedAvg with everything shared, to produce an anchor. mixed: by the strategy's own weights.
    """

    WARMUP = "warmup"
    MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """The phase of one round, and the statistics that its updates carry besides the weights."""

    phase: Phase = Phase.MIXED
    measure: Measure = Measure.NONE


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The input for computing W. counts: (n,) training samples. stats: one per member, or none."""

    counts: tuple[int, ...]
    stats: tuple[BnStats, ...] = ()

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise InvalidInput("sample counts", self.counts, "at least one member, each with at least one sample")
        if self.stats and len(self.stats) != len(self.counts):
            raise InvalidInput("statistics", f"{len(self.stats)} sets", f"one for each of {len(self.counts)} members")


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """weights: W (n, n), row i is what member i receives. layers, distances: (L, n, n), the reason for it, if known.

    similarity: (n,) similarity of each member to the most similar one, in [0, 1], if statistics are available.
    """

    weights: FloatArray
    layers: tuple[str, ...] = ()
    distances: FloatArray | None = None
    similarity: FloatArray | None = None

    def __post_init__(self) -> None:
        mixing.check_mixing(self.weights)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """The base class, which implements FedAvg. equal: weight all members equally instead of by training samples.

    robust, robust_factor, max_share: limits on a single member's influence; see `robust.Robustness`.
    finetune: epochs of training before the model is handed over; a copy is trained, so rounds are not affected.
    reestimate: set the batch-norm statistics of the model that is handed over to those of the participant's own
    training data.
    """

    name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    """Its name in tables and figures."""
    paper: ClassVar[str] = ""
    """URL of its publication."""
    needs_batch_norm: ClassVar[bool] = False
    needs_barrier: ClassVar[bool] = False
    """Whether its rounds must wait for all members; it is then refused in continuous mode."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Names of the models that a participant keeps besides the shared one."""
    depends_on_rounds: ClassVar[bool] = False
    """Whether the schedule depends on the total number of rounds; if not, a longer run starts like a shorter one."""

    equal: bool = False
    robust: str = "none"
    robust_factor: float = 2.0
    max_share: float = 0.25
    finetune: int = 0
    reestimate: bool = False

    def __post_init__(self) -> None:
        self.robustness  # noqa: B018 - validates the options
        if self.finetune < 0:
            raise InvalidInput(f"{self.name}.finetune", self.finetune, "a number of epochs from 0")

    def require_continuous(self) -> None:
        """Refuse continuous mode if the algorithm's rounds must wait for all members."""
        if self.needs_barrier:
            expected = f"barrier: a round of {self.name} needs all updates of that round"
            raise InvalidInput("mode", "continuous", expected, "Use mode = barrier.")

    @property
    def robustness(self) -> Robustness:
        """How updates are mixed if one of them may be hostile."""
        return Robustness(rule=self.robust, factor=self.robust_factor, max_share=self.max_share)

    @property
    def looks_at_directions(self) -> bool:
        """Whether members that pull against the others are doubted; see `directions`."""
        return self.robust == "limit"

    def is_personal(self, phase: Phase) -> bool:
        """Whether rows of this phase keep part of the member's own update, whatever the others give."""
        return phase is Phase.MIXED and self.kept_self_weight is not None

    @property
    def least_similarity(self) -> float | None:
        """A member less similar than this to all others is isolated; 0 isolates nobody; None: no statistics."""
        return None

    @property
    def home(self) -> frozenset[Part]:
        """The parts whose tensors never leave the participant."""
        return frozenset()

    def beside(self, spec: ModelSpec) -> tuple[TensorSpec, ...]:
        """Tensors that are sent beside the weights, not trainable and initially zero; see `Workspace.received`."""
        del spec
        return ()

    def travelling(self, spec: ModelSpec) -> tuple[TensorSpec, ...]:
        """All tensors that a participant sends and receives in a round, in wire order. Those beside the weights have at
        most as many values as the model: participants accept no larger payload."""
        beside = self.beside(spec)
        if sum(tensor.size for tensor in beside) > sum(tensor.size for tensor in spec.tensors):
            raise InvalidInput(f"{self.name}.beside", f"{len(beside)} tensors", "no more values than the model has")
        return (*spec.shared(self.home), *beside)

    @property
    def first_measure(self) -> Measure:
        """The statistics measured under the anchor, once, before the first round."""
        return Measure.NONE

    @property
    def round_measure(self) -> Measure:
        """The statistics in the updates of a measuring round; `round_plan` says which round that is."""
        return Measure.NONE

    def measures_covariance(self, measure: Measure) -> bool:
        """Whether such statistics contain a covariance matrix per layer (C x C values)."""
        del measure
        return False

    def round_plan(self, round_no: int, rounds: int) -> RoundPlan:
        """Return the phase and measure of round `round_no` of `rounds`."""
        del round_no, rounds
        return RoundPlan()

    def mixing(self, evidence: Evidence) -> Mixing:
        """Return W of a full round in the phase `mixed`."""
        return Mixing(weights=self.by_counts(evidence))

    def mixing_of(self, phase: Phase, evidence: Evidence) -> Mixing:
        """Return W of a full round in any phase of this strategy; `FFedAp` is an example with its own phase."""
        if phase is not Phase.MIXED:
            raise InvalidInput("phase", str(phase), f"a phase of {self.name}")
        return self.mixing(evidence)

    def compares(self, phase: Phase) -> frozenset[Part]:
        """The parts of a round's updates whose values determine W; empty if W does not depend on them."""
        del phase
        return frozenset()

    def affinity(self, products: FloatArray) -> FloatArray:
        """Return (m, m) >= 0: factors of the weights of each row, which are then normalised to a sum of 1.

        products: (m, m), the scalar product of every two updates over the trained values of the parts in `compares`.
        """
        return np.ones_like(products)

    @property
    def mixes_by_values(self) -> bool:
        """Whether W changes with every round's updates, so that a run has no single W."""
        return bool(self.compares(Phase.MIXED))

    def comparison(self, phase: Phase, tensors: Sequence[TensorSpec]) -> UpdateComparison | None:
        """Return how updates are compared, the same for every engine. tensors: those of the phase, in wire order."""
        parts = frozenset() if phase is Phase.WARMUP else self.compares(phase)
        if not parts:
            return None
        chosen = tuple(tensor.trainable and tensor.part in parts for tensor in tensors)
        return UpdateComparison(chosen=chosen, affinity=self.affinity, keeps_own=self.kept_self_weight is not None)

    def mixture(
        self, phase: Phase, weights: FloatArray, own: tuple[int | None, ...], tensors: Sequence[TensorSpec]
    ) -> Mixture:
        """Return one product of a round, the same for every engine. own: for each receiver the position of its own
        update among the givers, or None. tensors: those of the phase, in wire order."""
        return Mixture(
            weights=weights,
            own=own,
            personal=self.is_personal(phase),
            sizes=tuple(tensor.size for tensor in tensors),
            trained=sum(tensor.trainable for tensor in tensors),
            comparison=self.comparison(phase, tensors),
            sparse=self.is_sparse and phase is Phase.MIXED,
        )

    def restrict(
        self,
        weights: FloatArray,
        *,
        usable: BoolArray,
        own: BoolArray,
        discount: FloatArray | None = None,
        places: Sequence[int] | None = None,
    ) -> FloatArray:
        """Return W of a round that closed without all members; see `mixing.restrict`."""
        kept = self.kept_self_weight
        return mixing.restrict(weights, usable=usable, own=own, discount=discount, self_weight=kept, places=places)

    def narrowed(self, weights: FloatArray, *, usable: BoolArray, places: Sequence[int] | None = None) -> FloatArray:
        """Return W with fewer givers per row, if the algorithm uses only the nearest; called before `restrict`.

        weights: (n, n), or (r, n) of the members at `places`. usable: (n,) members whose update exists."""
        del usable, places
        return weights

    @property
    def most_givers(self) -> int:
        """The most other members that a row takes from; 0: all."""
        return 0

    @property
    def is_sparse(self) -> bool:
        """Whether rows have few entries, and only these are mixed."""
        return self.most_givers > 0

    def nearest(self, evidence: Evidence) -> NearestMembers | None:
        """Return W as its heaviest entries, if there are too many members for a whole matrix; None if the algorithm
        needs the whole matrix."""
        del evidence
        return None

    @property
    def kept_self_weight(self) -> float | None:
        """The diagonal that `restrict` keeps, or None if rows are simply rescaled."""
        return None

    # --- at a participant ---------------------------------------------------------------------------------------

    def begin(self, work: Workspace) -> None:
        """Create the vectors to keep in `work.vectors`; called before the first round."""

    def deliver(self, work: Workspace) -> None:
        """Process weights that were delivered into `work.model`, including the first of the run."""

    def train(self, work: Workspace) -> None:
        """Do one round of local work; afterwards the shared tensors of `work.model` are the update."""
        work.model.train()

    @property
    def kept_models(self) -> tuple[str, ...]:
        """`keeps`, possibly changed by the options."""
        return self.keeps

    @property
    def kept_vectors(self) -> int:
        """How many vectors of the model's size `work.vectors` may hold: a run of many clients keeps them in files if
        memory is short."""
        return 0

    def hand_over(self, work: Workspace) -> LocalModel:
        """Return the model to predict, evaluate and export with, after a delivery. Must not change anything that is
        kept; use `work.copy` for a model to change."""
        return work.model

    def passes(self, epochs: int) -> int:
        """How often a round goes through the training data. epochs: the plan's number."""
        return epochs

    @property
    def rounds_in_a_step(self) -> float:
        """How many rounds' training an update may differ by from the delivered weights: more than 1 with momentum from
        one round to the next."""
        return 1.0

    @property
    def acts_on_delivery(self) -> bool:
        """Whether the strategy processes delivered weights."""
        return type(self).deliver is not Strategy.deliver

    @property
    def hands_over_another(self) -> bool:
        """Whether the model handed over differs from the delivered one, so that both are evaluated."""
        return self.finetune > 0 or self.reestimate or type(self).hand_over is not Strategy.hand_over

    @property
    def trains_to_hand_over(self) -> bool:
        """Whether the model is trained before it is handed over; override this if `hand_over` itself trains."""
        return self.finetune > 0

    def finished(self, work: Workspace) -> LocalModel:
        """Return the model of `hand_over`, fine-tuned and re-estimated if the options ask for it."""
        model = self.hand_over(work)
        if self.finetune or self.reestimate:
            model = work.copy(model)
        if self.finetune:
            model.train(epochs=self.finetune)
        if self.reestimate:
            model.reestimate()
        return model

    def by_counts(self, evidence: Evidence) -> FloatArray:
        """Return W by sample counts, or equal weights with the option `equal`."""
        counts = np.asarray(evidence.counts, dtype=np.float64)
        return mixing.mixing_from_counts(np.ones_like(counts) if self.equal else counts)
