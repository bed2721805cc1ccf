"""The workspace that a strategy uses at a participant: the torch implementation of `fedap_core.workspace`'s types.

Owns the participant's models and vectors and all randomness of local work: each training derives its own seeds from
(run seed, participant, round, model, number of trainings before). The strategy decides which model is trained how.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedap_core.errors import InvalidInput
from fedap_core.nn.gradients import FlatGradient
from fedap_core.nn.head_inputs import fold_shift, head_input_mean, head_term
from fedap_core.nn.reestimation import reestimate_batch_norm
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, State
from fedap_core.nn.training import (
    Randomness,
    SgdSettings,
    SgdStep,
    TrainingMetrics,
    data_loss,
    frozen_but,
    rate_of,
    seeded_noise,
    train,
)
from fedap_core.parts import Part
from fedap_core.randomness import derive_seed
from fedap_core.workspace import CROSS_ENTROPY, EVERY_PART, Batch, LocalModel, Objective, Vector

_MODEL, _VECTOR, _VELOCITY = "model/", "vector/", "velocity/"
BESIDE = "beside/"
"""Prefix, in the kept state, of tensors that are sent beside the model."""

SHARED, COPY = "", "copy"
"""Names, in seeds, of the exchanged model and of the working copy."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The training settings of all models of one participant. rounds: those after warm-up. progress: the share of them
    that are over before a round."""

    participant: str
    samples: Samples
    sgd: SgdSettings
    seed: int
    keep_momentum: bool
    evaluation_batch: int
    rounds: range
    progress: Callable[[int], float]


class HomeModel:
    """One model and its optimiser; `flat` holds its tensors. It does not keep its workspace alive, so that a client's
    models are freed with the client, not by a garbage collection that may come too late for large ones."""

    def __init__(self, name: str, flat: FlatModel, work: HomeWorkspace) -> None:
        self.name = name
        self.flat = flat
        self._work: HomeWorkspace = weakref.proxy(work)
        keeps = work.trade.keep_momentum and work.trade.sgd.momentum > 0.0
        self.velocity = torch.zeros_like(flat.trainable) if keeps else None
        """The optimiser's state if the plan keeps it between rounds; None: every training starts from zero."""
        self._momentum: Tensor | None = None
        self._loss = torch.zeros(())
        self.reach = 0.0

    @property
    def loss(self) -> float:
        return float(self._loss)

    @property
    def values(self) -> Tensor:
        return self.flat.trainable

    def assign(self, values: Vector) -> None:
        self.flat.trainable.copy_(values)  # type: ignore[arg-type]  # every vector here is a tensor

    def copy_from(self, other: LocalModel) -> None:
        if not isinstance(other, HomeModel):
            raise TypeError("a model of this workspace is needed")
        self.flat.load(other.flat.state())

    def mask(self, parts: Collection[Part]) -> Tensor:
        return self.flat.mask(parts)

    def train(
        self,
        *,
        parts: Collection[Part] = EVERY_PART,
        epochs: int | None = None,
        objective: Objective = CROSS_ENTROPY,
        to_mean: bool = False,
    ) -> None:
        work = self._work
        if work.is_stopped:
            return
        metrics = train(
            self.flat,
            work.trade.samples,
            objective=objective,
            settings=work.trade.sgd,
            randomness=work.randomness(self.name),
            parts=parts,
            epochs=epochs,
            progress=work.progress,
            velocity=self.velocity,
            to_mean=to_mean,
            should_stop=work.ask,
        )
        self._loss = torch.tensor(metrics.loss)
        self.reach = work.learning_rate * momentum_steps(work.trade.sgd.momentum, metrics.steps, self.velocity is None)
        if self is work.shared_model:
            work.metrics = work.metrics.then(metrics)

    def step(self, batch: Batch, *, parts: Collection[Part] = EVERY_PART, objective: Objective = CROSS_ENTROPY) -> None:
        if self._momentum is None:  # kept for the whole round, as in `train`
            self._momentum = torch.zeros_like(self.values) if self.velocity is None else self.velocity
        inputs, targets = batch
        with frozen_but(self.flat, parts):
            step = SgdStep(self.flat, objective, self._work.trade.sgd, self._momentum, self._work.progress)
            try:
                self.flat.module.train()
                with head_term(self.flat, objective, self._work.learning_rate) as term:
                    loss = data_loss(self.flat.module(inputs), targets, objective)
                    term.backward(loss)
                step.apply()
                self._loss = loss.detach()
            finally:
                step.close()
        if self is self._work.shared_model:
            self._work.note_step(len(targets), float(loss.detach()))

    def gradient(self, batch: Batch, *, objective: Objective = CROSS_ENTROPY) -> Tensor:
        inputs, targets = batch
        gradient = FlatGradient(self.flat)
        try:
            self.flat.module.train()
            with head_term(self.flat, objective, 0.0) as term:
                loss = data_loss(self.flat.module(inputs), targets, objective)
                term.backward(loss)
            gradient.complete()
            self._loss = loss.detach()
        finally:
            gradient.detach()
        towards, shift = _tensor(objective.towards), _tensor(objective.shift)
        with torch.no_grad():
            if objective.pull > 0.0 and towards is not None:
                gradient.flat.add_(self.values - towards, alpha=objective.pull)
            if shift is not None:
                gradient.flat.add_(shift)
        return gradient.flat

    def reestimate(self) -> None:
        trade = self._work.trade
        reestimate_batch_norm(self.flat.module, trade.samples.inputs(trade.evaluation_batch))

    def head_input_mean(self) -> Tensor:
        trade = self._work.trade
        return head_input_mean(self.flat, trade.samples.inputs(trade.evaluation_batch))

    def fold_shift(self, shift: Vector) -> None:
        tensor = _tensor(shift)
        if tensor is not None:
            fold_shift(self.flat, tensor)

    def end_round(self) -> None:
        """Reset the momentum of single steps for the next round, unless the plan keeps it."""
        self._momentum = None


class HomeWorkspace:
    """Call `begin_round` before every task; `kept` and `load` save and restore what must survive a crash besides the
    model."""

    def __init__(self, flat: FlatModel, trade: ModelSettings, *, keeps: Collection[str], classes: int) -> None:
        self.trade = trade
        self._classes = classes
        self.shared_model = HomeModel(SHARED, flat, self)
        self.kept_models = {name: HomeModel(name, flat.twin(), self) for name in keeps}
        self.vectors: MutableMapping[str, Vector] = {}
        self._copy: HomeModel | None = None
        self._round_no = 0
        self._scheduled = True
        self._trainings: dict[str, int] = {}
        self._should_stop: Callable[[], bool] = lambda: False
        self.is_stopped = False
        self.metrics = TrainingMetrics(samples=0, steps=0, loss=0.0)
        """Metrics of the shared model in the current round."""
        self._epoch_samples, self._epoch_loss = 0, 0.0

    # --- for the strategy ---------------------------------------------------------------------------------------

    @property
    def model(self) -> LocalModel:
        return self.shared_model

    @property
    def models(self) -> Mapping[str, LocalModel]:
        return self.kept_models

    @property
    def round_no(self) -> int:
        return self._round_no - self.trade.rounds.start

    @property
    def rounds(self) -> int:
        return len(self.trade.rounds)

    @property
    def learning_rate(self) -> float:
        return rate_of(self.trade.sgd, self.progress)

    @property
    def epochs(self) -> int:
        return self.trade.sgd.epochs

    @property
    def class_counts(self) -> Tensor:
        return torch.bincount(self.trade.samples.y, minlength=self._classes).to(torch.float32)

    def received(self, name: str) -> Tensor:
        return self._beside(name).clone()

    def send(self, name: str, values: Vector) -> None:
        self._beside(name).copy_(values)  # type: ignore[arg-type]  # every vector here is a tensor

    def vector(self, values: Collection[float]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.float32, device=self.shared_model.values.device)

    def copy(self, model: LocalModel) -> LocalModel:
        if self._copy is None:
            self._copy = HomeModel(COPY, self.shared_model.flat.twin(), self)
        if model is not self._copy:
            self._copy.copy_from(model)
        if self._copy.velocity is not None:
            self._copy.velocity.zero_()
        self._copy.end_round()  # its steps start without momentum
        return self._copy

    def batches(self, *, epochs: int | None = None, share: float = 1.0) -> Iterator[Batch]:
        if not 0.0 < share <= 1.0:
            raise InvalidInput("share", share, "a number above 0, at most 1")
        seeds, sgd, samples = self.randomness("batches"), self.trade.sgd, self.trade.samples
        generator = torch.Generator().manual_seed(seeds.order)
        count = min(len(samples), max(2, round(share * len(samples))))
        device = samples.y.device
        with seeded_noise(device, seeds.noise):
            for _ in range(sgd.epochs if epochs is None else epochs):
                self._epoch_samples, self._epoch_loss = 0, 0.0
                order = torch.randperm(len(samples), generator=generator)[:count].to(device)
                for batch in samples.batches(sgd.batch_size, order, cut=sgd.batches):
                    if self.is_stopped:
                        return
                    yield batch
                    self.ask()

    # --- for the participant ------------------------------------------------------------------------------------

    def begin_round(
        self, round_no: int, should_stop: Callable[[], bool] = lambda: False, *, scheduled: bool = True
    ) -> None:
        """Reset the state of a round. round_no: the plan's, warm-up included. scheduled: whether the step size follows
        the round; fine-tuning belongs to no round and starts with the plan's step size, however late it is."""
        self._scheduled = scheduled
        self._round_no, self._should_stop, self.is_stopped = round_no, should_stop, False
        self._trainings = {}
        self.metrics = TrainingMetrics(samples=0, steps=0, loss=0.0)
        for model in (self.shared_model, *self.kept_models.values()):
            model.end_round()

    def kept(self) -> State:
        """Return copies of everything kept besides the shared model: models, their momentum, vectors."""
        state: State = {}
        for name, model in self.kept_models.items():
            state |= {f"{_MODEL}{name}/{key}": tensor for key, tensor in model.flat.state().items()}
            if model.velocity is not None:
                state[_VELOCITY + name] = model.velocity.clone()
        for name, vector in self.vectors.items():
            tensor = _tensor(vector)
            if tensor is not None:
                state[_VECTOR + name] = tensor.detach().cpu().clone()
        return state | {BESIDE + name: one.cpu().clone() for name, one in self.shared_model.flat.beside.items()}

    def load(self, kept: Mapping[str, Tensor]) -> None:
        """Restore what `kept` returned."""
        device = self.shared_model.values.device
        for name, model in self.kept_models.items():
            start = f"{_MODEL}{name}/"
            model.flat.load({key[len(start) :]: tensor for key, tensor in kept.items() if key.startswith(start)})
            if model.velocity is not None and _VELOCITY + name in kept:
                model.velocity.copy_(kept[_VELOCITY + name])
        self.vectors.clear()
        for key, tensor in kept.items():
            if key.startswith(_VECTOR):
                self.vectors[key.removeprefix(_VECTOR)] = tensor.to(device, copy=True)
            elif key.startswith(BESIDE):
                self._beside(key.removeprefix(BESIDE)).copy_(tensor)

    @property
    def progress(self) -> float:
        """The share of the run's rounds that are over; 0 outside the schedule."""
        return self.trade.progress(self._round_no) if self._scheduled else 0.0

    def _beside(self, name: str) -> Tensor:
        found = self.shared_model.flat.beside
        if name not in found:
            raise InvalidInput("tensor", name, f"one in `beside` of the strategy: {', '.join(found) or 'none'}")
        return found[name]

    # --- for models ---------------------------------------------------------------------------------------------

    def randomness(self, name: str) -> Randomness:
        """Return new seeds. The first training of the shared model has no suffix, so all strategies start alike."""
        number = self._trainings.get(name, 0)
        self._trainings[name] = number + 1
        which = "" if (name, number) == (SHARED, 0) else f" {name}/{number}"
        seeds = {
            purpose: derive_seed(
                self.trade.seed, participant=self.trade.participant, round_no=self._round_no, purpose=purpose + which
            )
            for purpose in ("order", "noise")
        }
        return Randomness(**seeds)

    def ask(self) -> bool:
        """Whether the round is to stop; asked after every batch."""
        self.is_stopped = self.is_stopped or self._should_stop()
        return self.is_stopped

    def note_step(self, samples: int, loss: float) -> None:
        """Count a single step of the shared model; its loss is a mean over the current epoch of `batches`."""
        self._epoch_loss += loss * samples
        self._epoch_samples += samples
        mean = self._epoch_loss / self._epoch_samples
        self.metrics = self.metrics.then(TrainingMetrics(samples=samples, steps=1, loss=mean))


def momentum_steps(momentum: float, steps: int, fresh: bool) -> float:
    """The number of steps without momentum equal to `steps` steps with it: the distance made under a constant unit
    gradient.

    fresh: whether the first step starts without velocity, so that early gradients are repeated more often than late
    ones; otherwise the velocity is assumed to be the steady state of the same gradient."""
    if not fresh:
        return steps / (1.0 - momentum)
    way = velocity = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1.0
        way += velocity
    return way


def _tensor(vector: Vector | None) -> Tensor | None:
    """Return a vector as the tensor it is; refuse anything else that a strategy made."""
    found: Any = vector
    if found is None or isinstance(found, Tensor):
        return found
    raise InvalidInput("vector", type(found).__name__, "a vector of the workspace", "Create it with work.vector(...).")
