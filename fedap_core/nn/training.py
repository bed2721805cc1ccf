"""Local training: E epochs of SGD on a flat model, from explicit inputs to explicit outputs.

The update is hand-written on the flat buffer (torch.optim.SGD costs 1.8 s and 77 MB of imports in every process). No
clock: a caller who limits the time passes `should_stop`. No global randomness: order and noise come from given seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedap_core.nn.gradients import FlatGradient
from fedap_core.nn.objectives import data_loss, pull_of
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel
from fedap_core.objectives import ObjectiveSpec

STRETCH = 1 << 17
"""Values per stretch of an update in several operations: half a mebibyte each of parameters, gradient and momentum."""


class SgdSettings(Protocol):
    """What a local epoch depends on. A plan's own record is one; it explains and checks each field."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def lr_schedule(self) -> str: ...
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def batches(self) -> str: ...
    @property
    def epochs(self) -> int: ...


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda _progress: 1.0,
    "cosine": lambda progress: (1.0 + math.cos(math.pi * progress)) / 2.0,
}
"""Factor of the learning rate, by the share of the run's rounds that are over."""


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
    progress: float = 0.0,
    velocity: Tensor | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainingMetrics:
    """Train `model` in place.

    `progress` is the share of the run's rounds that are over: what the learning rate's schedule goes by. `velocity`
    (same shape as `trainable`) is momentum that the caller keeps between rounds.
    `should_stop` is asked after every batch; what was learnt until then stands.
    """
    device = model.trainable.device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # Only what is forked may be seeded: torch.manual_seed would reach every GPU.
        for generator in (torch.default_generator, *(torch.cuda.default_generators[one.index] for one in devices)):
            generator.manual_seed(randomness.noise)
        step = SgdStep(model, objective, settings, velocity, progress)
        return _epochs(model, samples, settings, step, randomness, should_stop)


def _epochs(
    model: FlatModel,
    samples: Samples,
    settings: SgdSettings,
    step: SgdStep,
    randomness: Randomness,
    should_stop: Callable[[], bool],
) -> TrainingMetrics:
    generator = torch.Generator().manual_seed(randomness.order)
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
        self,
        model: FlatModel,
        objective: ObjectiveSpec,
        settings: SgdSettings,
        velocity: Tensor | None = None,
        progress: float = 0.0,
    ) -> None:
        parameters = model.trainable
        self._gradient = FlatGradient(model)
        self._pull = pull_of(objective)
        self._strength = objective.strength
        self._settings = settings
        self._rate = settings.learning_rate * SCHEDULES[settings.lr_schedule](progress)
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
            parameters.add_(velocity, alpha=-self._rate)
        self._gradient.clear()

    def close(self) -> None:
        """Leave the model as it was but for its values."""
        self._gradient.detach()
