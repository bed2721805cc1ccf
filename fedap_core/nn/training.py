"""Train locally: E epochs of SGD on a flat model, with explicit inputs and outputs.

The update is hand-written on the flat buffer (torch.optim.SGD costs 1.8 s and 77 MB of imports in every process). No
clock: callers limit the time with `should_stop`. No global randomness: order and noise come from given seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.nn.gradients import FlatGradient
from fedap_core.nn.head_inputs import HeadTerm, head_term
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel
from fedap_core.parts import Part
from fedap_core.workspace import CROSS_ENTROPY, EVERY_PART, Objective

STRETCH = 1 << 17
"""Values per chunk of a multi-operation update: half a mebibyte each of parameters, gradient and momentum."""


class SgdSettings(Protocol):
    """The settings of a local epoch. The plan's record implements it; it describes and checks each field."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def lr_schedule(self) -> str: ...
    @property
    def lr_floor(self) -> float: ...
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


SCHEDULES: Mapping[str, Callable[[float, float], float]] = {
    "constant": lambda _progress, _floor: 1.0,
    "cosine": lambda progress, floor: floor + (1.0 - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0,
}
"""Factor of the learning rate, from the share of the run's rounds that are over and the floor."""


@dataclass(frozen=True, kw_only=True)
class TrainingMetrics:
    """samples: total seen. steps: updates made. loss: mean over the samples seen in the last epoch started."""

    samples: int
    steps: int
    loss: float

    def then(self, later: TrainingMetrics) -> TrainingMetrics:
        """Combine two consecutive trainings of one round."""
        return TrainingMetrics(samples=self.samples + later.samples, steps=self.steps + later.steps, loss=later.loss)


@dataclass(frozen=True, kw_only=True)
class Randomness:
    """Seeds of one participant's round: `order` of the samples, `noise` for dropout and similar layers."""

    order: int
    noise: int


def train(
    model: FlatModel,
    samples: Samples,
    *,
    settings: SgdSettings,
    randomness: Randomness,
    objective: Objective = CROSS_ENTROPY,
    parts: Collection[Part] = EVERY_PART,
    epochs: int | None = None,
    progress: float = 0.0,
    velocity: Tensor | None = None,
    to_mean: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainingMetrics:
    """Train `model` in place.

    parts: the parts that SGD updates; batch-norm statistics are always updated. epochs: None means the settings'.
    progress: the share of the run's rounds that are over, for the learning rate schedule. velocity (same shape as
    `trainable`): momentum that the caller keeps between rounds. to_mean: end at the mean of the values after every
    step instead of those after the last. should_stop: called after every batch; what was learnt until then is kept.
    """
    with seeded_noise(model.trainable.device, randomness.noise), frozen_but(model, parts):
        step = SgdStep(model, objective, settings, velocity, progress)
        order = torch.Generator().manual_seed(randomness.order)
        passes = settings.epochs if epochs is None else epochs
        try:
            with head_term(model, objective, rate_of(settings, progress)) as term:
                mean = StepMean(model.trainable) if to_mean else None
                metrics = _epochs(model, samples, objective, term, settings, step, order, passes, mean, should_stop)
                if mean is not None:
                    mean.assign()
                return metrics
        finally:
            step.close()


def rate_of(settings: SgdSettings, progress: float) -> float:
    """Return the step size at this share of the run's rounds."""
    return settings.learning_rate * SCHEDULES[settings.lr_schedule](progress, settings.lr_floor)


@contextmanager
def seeded_noise(device: torch.device, seed: int) -> Iterator[None]:
    """Let dropout and similar layers draw from this seed; afterwards torch's generators are restored."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # seed only the forked generators: torch.manual_seed would affect every GPU
        for generator in (torch.default_generator, *(torch.cuda.default_generators[one.index] for one in devices)):
            generator.manual_seed(seed)
        yield


@contextmanager
def frozen_but(model: FlatModel, parts: Collection[Part]) -> Iterator[None]:
    """Let only parameters of these parts require a gradient."""
    frozen = [parameter for parameter in model.parameters_outside(parts) if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


def data_loss(logits: Tensor, targets: Tensor, objective: Objective = CROSS_ENTROPY) -> Tensor:
    """Mean cross-entropy of a batch: the part of an objective that depends on samples."""
    offset: Any = objective.logit_offset
    return F.cross_entropy(logits if offset is None else logits + offset, targets)


def _epochs(
    model: FlatModel,
    samples: Samples,
    objective: Objective,
    term: HeadTerm,
    settings: SgdSettings,
    step: SgdStep,
    generator: torch.Generator,
    passes: int,
    mean: StepMean | None,
    should_stop: Callable[[], bool],
) -> TrainingMetrics:
    module, device = model.module, model.trainable.device
    module.train()
    seen = steps = 0
    loss_sum = torch.zeros((), device=device)
    epoch_samples = 0
    stopped = False
    for _ in range(passes):
        loss_sum.zero_()
        epoch_samples = 0
        order = torch.randperm(len(samples), generator=generator).to(device)
        for inputs, targets in samples.batches(settings.batch_size, order, cut=settings.batches):
            loss = data_loss(module(inputs), targets, objective)
            term.backward(loss)
            step.apply()
            if mean is not None:
                mean.add()
            loss_sum.add_(loss.detach(), alpha=len(targets))
            epoch_samples += len(targets)
            steps += 1
            stopped = should_stop()
            if stopped:
                break
        seen += epoch_samples
        if stopped:
            break
    return TrainingMetrics(samples=seen, steps=steps, loss=float(loss_sum) / max(epoch_samples, 1))


class StepMean:
    """The mean of values after each of many steps. A single step's noise hardly moves it."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self._mean = torch.zeros_like(values)
        self._count = 0

    @torch.no_grad()
    def add(self) -> None:
        """Include the present values."""
        self._count += 1
        self._mean.lerp_(self._values, 1.0 / self._count)

    @torch.no_grad()
    def assign(self) -> None:
        """Set the values to their mean; without any step they stay as they are."""
        if self._count:
            self._values.copy_(self._mean)


class SgdStep:
    """One SGD update of the trained values: pull, shift, weight decay, momentum, each one operation on a stretch.

    Stretches fit a cache, so that a large model's parameters, gradient and momentum cross the memory bus once per step.
    Each value is updated independently, so the division into stretches changes no bit. Values that require no gradient
    when the step is created are unchanged: no decay, no momentum.
    """

    def __init__(
        self,
        model: FlatModel,
        objective: Objective,
        settings: SgdSettings,
        velocity: Tensor | None = None,
        progress: float = 0.0,
    ) -> None:
        parameters = model.trainable
        self._gradient = FlatGradient(model)
        self._pull = objective.pull
        self._shifts = objective.shift is not None
        self._settings = settings
        self._rate = rate_of(settings, progress)
        towards: Any = objective.towards
        if towards is None:
            towards = parameters.clone() if self._pull > 0.0 else parameters
        shift: Any = objective.shift if self._shifts else parameters
        if settings.momentum == 0.0:
            velocity = self._gradient.flat  # plain descent uses the gradient itself
        elif velocity is None:
            velocity = torch.zeros_like(parameters)
        in_one_pass = not self._shifts and self._pull == settings.weight_decay == settings.momentum == 0.0
        whole = in_one_pass or not parameters.is_cpu  # an accelerator would wait for each of many small operations
        width = max(len(parameters), 1) if whole else STRETCH
        flats = (parameters, self._gradient.flat, towards, shift, velocity)
        self._stretches = tuple(
            stretch
            for start, stop in model.trained_ranges()
            for stretch in zip(*(torch.split(flat[start:stop], width) for flat in flats), strict=True)
        )

    @torch.no_grad()
    def apply(self) -> None:
        """Update the parameters by the gradient of the last backward pass, then reset it."""
        settings = self._settings
        self._gradient.complete()
        for parameters, gradient, towards, shift, velocity in self._stretches:
            if self._pull > 0.0:
                gradient.add_(parameters - towards, alpha=self._pull)
            if self._shifts:
                gradient.add_(shift)
            if settings.weight_decay > 0.0:
                gradient.add_(parameters, alpha=settings.weight_decay)
            if settings.momentum > 0.0:
                velocity.mul_(settings.momentum).add_(gradient)
            parameters.add_(velocity, alpha=-self._rate)
        self._gradient.clear()

    def close(self) -> None:
        """Restore the model except for its values."""
        self._gradient.detach()
