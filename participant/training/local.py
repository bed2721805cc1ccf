"""The local work of one participant: measure, train a round, evaluate the delivered model.

Owns the model, the BN layers and the samples. Uses no sockets or files: the networked participant and the inline
engine call the same methods and get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fedap_core.arrays import Float32Array, IndexArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.batchnorm import require_batch_norm
from fedap_core.nn.evaluation import evaluate
from fedap_core.nn.layers import use_stock_layers
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, State
from fedap_core.nn.statistics import batch_norm_inputs, head_inputs, running_statistics, unit_inputs
from fedap_core.nn.training import TrainingMetrics
from fedap_core.parts import Part
from fedap_core.private_statistics import UnitMoments
from fedap_core.strategies import Measure, Strategy
from fedap_core.workspace import DELIVERED, HANDED_OVER
from participant.training.workspace import HomeModel, HomeWorkspace, ModelSettings
from protocol.plan import Compute, Sgd


@dataclass(frozen=True, kw_only=True)
class LocalPlan:
    """The parts of a run's plan that determine the local numbers. rounds: those after warm-up."""

    strategy: Strategy
    sgd: Sgd
    seed: int
    compute: Compute = field(default_factory=Compute)
    rounds: range = range(1)

    @property
    def evaluation_batch(self) -> int:
        """Samples per forward pass when measuring or evaluating: a different size changes the last bits of W."""
        return self.compute.evaluation_batch_size

    def progress(self, round_no: int) -> float:
        """The share of the run's rounds that are over before this one. 0 in warm-up rounds; extra rounds of a member of
        a continuous run count as the last one."""
        number = min(round_no, self.rounds.stop - 1) - self.rounds.start
        return max(number, 0) / len(self.rounds)


@dataclass(frozen=True, kw_only=True)
class LocalReport:
    """The results of a round of training, besides the weights."""

    metrics: TrainingMetrics
    stats: BnStats | None = None


class LocalClient:
    """One participant's model and samples. `shared` holds its live weights: mixing may write them, training reads them.

    buffer: memory of the flat model. mirrored: whether `shared` is a copy in main memory (see `FlatModel`). flat: the
    flat model of a client that is no longer needed, to save the time of creating one.
    """

    def __init__(
        self,
        name: str,
        *,
        splits: Mapping[str, Samples],
        module: nn.Module,
        spec: ModelSpec,
        plan: LocalPlan,
        buffer: Tensor | None = None,
        mirrored: bool | None = None,
        flat: FlatModel | None = None,
    ) -> None:
        if plan.strategy.needs_batch_norm:
            require_batch_norm(module, plan.strategy.name)
        self.name = name
        self._splits = splits
        self._spec = spec
        self._plan = plan
        if plan.compute.layers == "stock":
            use_stock_layers(module)
        self._model = flat or FlatModel(
            module,
            spec.tensors,
            plan.strategy.home,
            buffer,
            beside=plan.strategy.beside(spec),
            mirrored=mirrored,
        )
        settings = ModelSettings(
            participant=name,
            samples=splits["train"],
            sgd=plan.sgd,
            seed=plan.seed,
            keep_momentum=plan.sgd.keep_momentum,
            evaluation_batch=plan.evaluation_batch,
            rounds=plan.rounds,
            progress=plan.progress,
        )
        self._work = HomeWorkspace(self._model, settings, keeps=plan.strategy.kept_models, classes=len(spec.classes))
        self._finished: FlatModel | None = None
        """The model to hand over, cached until something changes."""
        plan.strategy.begin(self._work)

    @property
    def velocity(self) -> Tensor | None:
        """The optimiser's state if the plan keeps it between rounds; None: every round starts from zero."""
        return self._work.shared_model.velocity

    @property
    def train_samples(self) -> int:
        """The number of training samples: the weight of this participant's update."""
        return len(self._splits["train"])

    @property
    def shared(self) -> Float32Array:
        """The shared weights, live and in main memory: the next method works with what is written here."""
        return self._model.host

    def measure(self, anchor: State, what: Measure) -> BnStats:
        """Measure statistics of the training samples under the anchor; the participant's own model is unchanged."""
        with self._as(anchor):
            return self._statistics(what)

    def measure_units(self, anchor: State, what: Measure, units: IndexArray) -> UnitMoments:
        """Measure each unit's contribution to private statistics; the participant's own model is unchanged.

        units: (n,), the unit of each training sample, in order.
        """
        batches = self._splits["train"].inputs(self._plan.evaluation_batch)
        head = self._spec.head[-1] if what is Measure.HEAD_INPUTS else None
        with self._as(anchor):
            return unit_inputs(self._model.module, batches, units, head=head)

    @contextmanager
    def _as(self, anchor: State) -> Iterator[None]:
        """Load the anchor's values into the model temporarily."""
        own = self.state()
        for name in own:
            if name not in anchor:  # the participant's own tensor would silently be used
                raise InvalidInput("anchor", f"no tensor {name}", "all tensors of the model")
        self._model.load(anchor)
        try:
            yield
        finally:
            self._model.load(own)

    def deliver(
        self,
        round_no: int,
        values: Float32Array | None = None,
        *,
        untrained: Float32Array | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take the weights to train round `round_no` from: `values`, or what is already in `shared`.

        untrained: for a participant that has not finished a round, the weights it would get if nobody had trained yet.
        If others have, its local batch-norm layers do not fit the delivered weights and are re-estimated. should_stop:
        asked after every batch of a strategy that learns from a delivery; what it learnt is then not to be used.
        """
        if values is not None:
            self.shared[...] = values
        self._finished = None
        strategy = self._plan.strategy
        moved = untrained is not None and not np.array_equal(untrained, self.shared)
        if not (strategy.acts_on_delivery or (moved and Part.BATCH_NORM in strategy.home)):
            return
        self._model.receive()
        if moved and Part.BATCH_NORM in strategy.home:
            self._work.shared_model.reestimate()
        if strategy.acts_on_delivery:
            self._work.begin_round(round_no, should_stop)
            strategy.deliver(self._work)
        self._model.publish()

    def train(
        self, round_no: int, *, measure: Measure = Measure.NONE, should_stop: Callable[[], bool] = lambda: False
    ) -> LocalReport:
        """Do one round of the strategy's local work from the delivered weights; afterwards `shared` is the update."""
        self._model.receive()
        self._finished = None
        self._work.begin_round(round_no, should_stop)
        self._plan.strategy.train(self._work)
        self._model.publish()
        stats = None if measure is Measure.NONE else self._statistics(measure)
        return LocalReport(metrics=self._work.metrics, stats=stats)

    def evaluate(self, split: str, model: str = DELIVERED, *, round_no: int = 0) -> Evaluation:
        """Evaluate a model on one of the participant's splits: the current one in `shared`, or the one that would be
        handed over now, before round `round_no` is trained."""
        if split not in self._splits:
            raise InvalidInput("split", split, f"one of {', '.join(self._splits)}")
        self._model.receive()
        flat = self._to_hand_over(round_no) if model == HANDED_OVER else self._model
        samples, classes = self._splits[split], len(self._spec.classes)
        return evaluate(flat.module, samples, classes=classes, batch_size=self._plan.evaluation_batch)

    @property
    def evaluated_models(self) -> tuple[str, ...]:
        """The kinds of models that are scored."""
        return (DELIVERED, HANDED_OVER) if self._plan.strategy.hands_over_another else (DELIVERED,)

    @property
    def keeps_more_than_its_model(self) -> bool:
        """Whether the next round depends on more than the model to hand over."""
        return self._plan.strategy.hands_over_another or bool(self._work.kept())

    @property
    def trains_to_hand_over(self) -> bool:
        """Whether the model is trained further before it is handed over."""
        return self._plan.strategy.trains_to_hand_over

    def handed_over(self, round_no: int) -> State:
        """Return copies of all tensors of the model to predict with, before round `round_no` is trained."""
        self._model.receive()
        state = self._to_hand_over(round_no).state()
        self._finished = None  # weights may be mixed after a run was saved, without a delivery
        return state

    def state(self) -> State:
        """Return copies of all tensors of the exchanged model, BN included."""
        self._model.receive()
        return self._model.state()

    def kept(self) -> State:
        """Return copies of what the strategy keeps besides it; with `state`, all that the next round depends on."""
        return self._work.kept()

    def load(self, state: State, kept: State | None = None) -> None:
        """Restore a stored state. kept: None leaves what the strategy keeps unchanged."""
        self._model.load(state)
        if kept is not None:
            self._work.load(kept)
        self._model.publish()
        self._finished = None

    def _to_hand_over(self, round_no: int) -> FlatModel:
        strategy = self._plan.strategy
        if not strategy.hands_over_another:
            return self._model
        if self._finished is None:
            self._work.begin_round(round_no, scheduled=False)
            found = strategy.finished(self._work)
            if not isinstance(found, HomeModel):
                raise InvalidInput(f"hand_over of {strategy.name}", type(found).__name__, "a model of the workspace")
            self._finished = found.flat
        return self._finished

    def _statistics(self, what: Measure) -> BnStats:
        strategy, samples = self._plan.strategy, self._splits["train"]
        covariance = strategy.measures_covariance(what)
        module = self._model.module
        if what is Measure.RUNNING:
            return running_statistics(module, samples=len(samples))
        batches = samples.inputs(self._plan.evaluation_batch)
        if what is Measure.HEAD_INPUTS:
            return head_inputs(module, self._spec.head[-1], batches, covariance=covariance)
        return batch_norm_inputs(module, batches, covariance=covariance)


def use_threads(threads: int) -> None:
    """Fix the number of training threads of this process: another number changes the last bits of every result."""
    torch.set_num_threads(threads)
