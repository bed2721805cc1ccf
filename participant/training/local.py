"""One participant's work at home, whoever asks for it: measure, train a round, evaluate what was delivered.

Owns the model, the BN layers and the samples. Knows no socket and no file: the networked agent and the inline engine
call the same methods and get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.batchnorm import require_batch_norm
from fedap_core.nn.evaluation import evaluate
from fedap_core.nn.layers import use_stock_layers
from fedap_core.nn.reestimation import reestimate_batch_norm
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, State
from fedap_core.nn.statistics import batch_norm_inputs, head_inputs, running_statistics
from fedap_core.nn.training import Randomness, TrainingMetrics, train
from fedap_core.randomness import derive_seed
from fedap_core.strategies import Measure, Strategy
from protocol.plan import Compute, Sgd


@dataclass(frozen=True, kw_only=True)
class LocalPlan:
    """Everything of a run's plan that shapes the numbers at home. rounds: those that follow warm-up."""

    strategy: Strategy
    sgd: Sgd
    seed: int
    compute: Compute = field(default_factory=Compute)
    rounds: range = range(1)

    @property
    def evaluation_batch(self) -> int:
        """Samples per forward pass when measuring or evaluating: other batches change the last bits of W."""
        return self.compute.evaluation_batch_size

    def progress(self, round_no: int) -> float:
        """The share of the run's rounds that are over before this one; warm-up rounds come before all of them."""
        return (round_no - self.rounds.start) / len(self.rounds) if round_no in self.rounds else 0.0


@dataclass(frozen=True, kw_only=True)
class LocalReport:
    """What a round of training gives beside the weights."""

    metrics: TrainingMetrics
    stats: BnStats | None = None


class LocalClient:
    """`shared` is the participant's live shared weights: mixing may write into it, training reads it."""

    def __init__(
        self,
        name: str,
        *,
        splits: Mapping[str, Samples],
        module: nn.Module,
        spec: ModelSpec,
        plan: LocalPlan,
        buffer: Tensor | None = None,
    ) -> None:
        if plan.strategy.needs_batch_norm:
            require_batch_norm(module, plan.strategy.name)
        self.name = name
        self._splits = splits
        self._spec = spec
        self._plan = plan
        if plan.compute.layers == "stock":
            use_stock_layers(module)
        self._model = FlatModel(module, spec.tensors, plan.strategy.home, buffer)
        keeps = plan.sgd.keep_momentum and plan.sgd.momentum > 0.0
        self.velocity = torch.zeros_like(self._model.trainable) if keeps else None
        """The optimiser's state where the plan carries it from round to round; else every round starts afresh."""

    @property
    def train_samples(self) -> int:
        """How much this participant's update counts."""
        return len(self._splits["train"])

    @property
    def shared(self) -> Float32Array:
        """The weights that travel, in main memory and live: what is written here is what the next method works with."""
        return self._model.host

    def measure(self, anchor: State, what: Measure) -> BnStats:
        """Statistics of the training samples under the anchor; the participant's own model is left as it was."""
        own = self.state()
        for name in own:
            if name not in anchor:  # the participant's own tensor would silently stand in
                raise InvalidInput("anchor", f"no tensor {name}", "all tensors of the model")
        self._model.load(anchor)
        try:
            return self._statistics(what)
        finally:
            self._model.load(own)

    def train(
        self, round_no: int, *, measure: Measure = Measure.NONE, should_stop: Callable[[], bool] = lambda: False
    ) -> LocalReport:
        """E local epochs from the weights as delivered; afterwards `shared` is the update."""
        self._model.receive()
        seeds = {
            purpose: derive_seed(self._plan.seed, participant=self.name, round_no=round_no, purpose=purpose)
            for purpose in ("order", "noise")
        }
        metrics = train(
            self._model,
            self._splits["train"],
            objective=self._plan.strategy.objective,
            settings=self._plan.sgd,
            randomness=Randomness(order=seeds["order"], noise=seeds["noise"]),
            progress=self._plan.progress(round_no),
            velocity=self.velocity,
            should_stop=should_stop,
        )
        self._model.publish()
        return LocalReport(metrics=metrics, stats=None if measure is Measure.NONE else self._statistics(measure))

    def evaluate(self, split: str) -> Evaluation:
        """The model as it stands on one of the participant's own splits."""
        if split not in self._splits:
            raise InvalidInput("split", split, f"one of {', '.join(self._splits)}")
        self._model.receive()
        samples, classes = self._splits[split], len(self._spec.classes)
        return evaluate(self._model.module, samples, classes=classes, batch_size=self._plan.evaluation_batch)

    def reestimate(self) -> None:
        """Fit the BN statistics to one's own training samples: for one who enters a run that others have begun."""
        self._model.receive()
        reestimate_batch_norm(self._model.module, self._splits["train"].inputs(self._plan.evaluation_batch))
        self._model.publish()

    def state(self) -> State:
        """Copies of all tensors: the personalised model, BN included."""
        self._model.receive()
        return self._model.state()

    def load(self, state: State) -> None:
        """Take over a stored state."""
        self._model.load(state)
        self._model.publish()

    def _statistics(self, what: Measure) -> BnStats:
        strategy, samples = self._plan.strategy, self._splits["train"]
        covariance = bool(getattr(strategy, "full_covariance", False))
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
