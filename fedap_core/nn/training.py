"""Local training: E epochs of SGD on a flat model, from explicit inputs to explicit outputs.

The update is hand-written on the flat buffer (torch.optim.SGD costs 1.8 s and 77 MB of imports in every process). No
clock: a caller who limits the time passes `should_stop`. No global randomness: order and noise come from given seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedap_core.errors import InvalidInput
from fedap_core.nn.gradients import FlatGradient
from fedap_core.nn.objectives import data_loss, pull_of
from fedap_core.nn.samples import CUTS, Samples
from fedap_core.nn.state import FlatModel
from fedap_core.objectives import ObjectiveSpec

STRETCH = 1 << 17
"""Values per stretch of an update in several operations: half a mebibyte each of parameters, gradient and momentum."""


@dataclass(frozen=True, kw_only=True)
class SgdSettings:
    """Everything that shapes a local epoch."""

    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int = 32
    batches: str = "even"
    epochs: int = 1

    def __post_init__(self) -> None:
        if not self.learning_rate > 0.0:
            raise InvalidInput("learning_rate", self.learning_rate, "a number > 0")
        if not 0.0 <= self.momentum < 1.0:
            raise InvalidInput("momentum", self.momentum, "a number in [0, 1)")
        if not self.weight_decay >= 0.0:
            raise InvalidInput("weight_decay", self.weight_decay, "a number >= 0")
        if self.batch_size < 2:
            raise InvalidInput("batch_size", self.batch_size, "at least 2: batch norm cannot train on one sample")
        if self.batches not in CUTS:
            raise InvalidInput("batches", self.batches, f"one of {', '.join(CUTS)}")
        if self.epochs < 1:
            raise InvalidInput("epochs", self.epochs, "at least 1")


@dataclass(frozen=True, kw_only=True)
class TrainingMetrics:
    """samples: seen in all; steps: updates made; loss: mean over the samples seen in the last epoch begun."""

    samples: int
    steps: int
    loss: float


@dataclass(frozen=True, kw_only=True)
class Randomness:
    """Seeds of one participant's round: `order` of the samples, `noise` for dropout and its like."""

    order: int
    noise: int


def train(
    model: FlatModel,
    samples: Samples,
    *,
    objective: ObjectiveSpec,
    settings: SgdSettings,
    randomness: Randomness,
    velocity: Tensor | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainingMetrics:
    """Train `model` in place. `velocity` (same shape as `trainable`) is momentum that the caller keeps between rounds.

    `should_stop` is asked after every batch; what was learnt until then stands.
    """
    device = model.trainable.device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # Only what is forked may be seeded: torch.manual_seed would reach every GPU.
        for generator in (torch.default_generator, *(torch.cuda.default_generators[one.index] for one in devices)):
            generator.manual_seed(randomness.noise)
        return _epochs(model, samples, objective, settings, randomness, velocity, should_stop)


def _epochs(
    model: FlatModel,
    samples: Samples,
    objective: ObjectiveSpec,
    settings: SgdSettings,
    randomness: Randomness,
    velocity: Tensor | None,
    should_stop: Callable[[], bool],
) -> TrainingMetrics:
    generator = torch.Generator().manual_seed(randomness.order)
    step = SgdStep(model, objective, settings, velocity)
    module, device = model.module, model.trainable.device
    module.train()
    seen = steps = 0
    loss_sum = torch.zeros((), device=device)
    epoch_samples = 0
    stopped = False
    try:
        for _ in range(settings.epochs):
            loss_sum.zero_()
            epoch_samples = 0
            order = torch.randperm(len(samples), generator=generator).to(device)
            for inputs, targets in samples.batches(settings.batch_size, order, cut=settings.batches):
                loss = data_loss(module(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call]
                step.apply()
                loss_sum.add_(loss.detach(), alpha=len(targets))
                epoch_samples += len(targets)
                steps += 1
                stopped = should_stop()
                if stopped:
                    break
            seen += epoch_samples
            if stopped:
                break
    finally:
        step.close()
    return TrainingMetrics(samples=seen, steps=steps, loss=float(loss_sum) / max(epoch_samples, 1))


class SgdStep:
    """One SGD update of all trainable values: parameter term, weight decay, momentum, each one operation on a stretch.

    Stretches fit a cache, so that a large model's parameters, gradient and momentum cross the memory bus once a step.
    Values do not look at their neighbours, so how they are cut changes no bit.
    """

    def __init__(
        self, model: FlatModel, objective: ObjectiveSpec, settings: SgdSettings, velocity: Tensor | None = None
    ) -> None:
        parameters = model.trainable
        self._gradient = FlatGradient(model)
        self._pull = pull_of(objective)
        self._strength = objective.strength
        self._settings = settings
        received = parameters.clone() if self._pull else parameters
        if settings.momentum == 0.0:
            velocity = self._gradient.flat  # plain descent goes by the gradient itself
        elif velocity is None:
            velocity = torch.zeros_like(parameters)
        in_one_pass = self._pull is None and settings.weight_decay == settings.momentum == 0.0
        whole = in_one_pass or not parameters.is_cpu  # an accelerator would wait for each of many small operations
        width = max(len(parameters), 1) if whole else STRETCH
        flats = (parameters, self._gradient.flat, received, velocity)
        self._stretches = tuple(zip(*(torch.split(flat, width) for flat in flats), strict=True))

    @torch.no_grad()
    def apply(self) -> None:
        """Move the parameters by the gradient that backward left, then forget it."""
        settings = self._settings
        self._gradient.complete()
        for parameters, gradient, received, velocity in self._stretches:
            if self._pull is not None:
                self._pull(gradient, parameters, received, self._strength)
            if settings.weight_decay > 0.0:
                gradient.add_(parameters, alpha=settings.weight_decay)
            if settings.momentum > 0.0:
                velocity.mul_(settings.momentum).add_(gradient)
            parameters.add_(velocity, alpha=-settings.learning_rate)
        self._gradient.clear()

    def close(self) -> None:
        """Leave the model as it was but for its values."""
        self._gradient.detach()
