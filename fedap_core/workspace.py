"""The interface that an algorithm uses at a participant: models, vectors, batches. Types only, without torch.

The coordinator imports every strategy and must not load torch, so a strategy is written against these protocols
(`participant.training.workspace` implements them). A vector is flat and float32: all trainable values of a model, in
the same order for all models of one participant, or one entry per class, or whatever the strategy needs. Vectors are
added, subtracted and multiplied like arrays; results are new vectors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part

DELIVERED = "delivered"
"""Scores of the model delivered by the coordinator (after `Strategy.deliver`), before local training."""

HANDED_OVER = "handed-over"
"""Scores of the model that the participant would keep if the run ended now (`Strategy.hand_over`), if it differs from
the delivered model."""

TRAINED = "trained"
"""Scores of a model after local training."""

_HEADLINE = (HANDED_OVER, DELIVERED, TRAINED)


def headline_rank(model: str) -> int:
    """Return the rank of a score; of several scores of one round, the one with the lowest rank is the headline."""
    return _HEADLINE.index(model) if model in _HEADLINE else len(_HEADLINE)


Operand = Any
"""A vector or a number. Any, because torch's and numpy's own signatures accept only their own types."""

Index = Any
"""A slice, or a boolean mask."""

Batch = tuple[Any, Any]
"""Inputs and targets of one training step, as `Workspace.batches` yields them."""


class Vector(Protocol):
    """Flat float32 numbers. Operators and methods return new vectors; `[...]` selects by slice or mask."""

    def __add__(self, other: Operand, /) -> Vector: ...
    def __sub__(self, other: Operand, /) -> Vector: ...
    def __mul__(self, other: Operand, /) -> Vector: ...
    def __truediv__(self, other: Operand, /) -> Vector: ...
    def __rmul__(self, other: Operand, /) -> Vector: ...
    def __rsub__(self, other: Operand, /) -> Vector: ...
    def __neg__(self) -> Vector: ...
    def __getitem__(self, index: Index, /) -> Vector: ...
    def __len__(self) -> int: ...
    def __float__(self) -> float: ...
    def clone(self) -> Vector: ...
    def clip(self, min: float, max: float) -> Vector: ...  # noqa: A002 - numpy's and torch's names
    def dot(self, other: Operand) -> Vector: ...
    def sum(self) -> Vector: ...
    def sqrt(self) -> Vector: ...
    def log(self) -> Vector: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """What a participant minimises; the default is the mean cross-entropy of a batch.

    pull: adds pull / 2 * ||values - towards||^2. towards: None means the values at the start of training.
    shift: a vector added to every gradient (SCAFFOLD: c - c_i).
    logit_offset: a vector (classes,) added to the logits before the cross-entropy (balanced softmax: ln n_c).
    head_shift: a vector (features,) added to the head's inputs, and learnt: every training step updates it in place by
    plain SGD. feature_pull: adds feature_pull * mean((m - feature_mean)^2) over the features, where m is a batch's mean
    of the head's inputs without the shift.
    """

    pull: float = 0.0
    towards: Vector | None = None
    shift: Vector | None = None
    logit_offset: Vector | None = None
    head_shift: Vector | None = None
    feature_pull: float = 0.0
    feature_mean: Vector | None = None

    def __post_init__(self) -> None:
        for field, strength in (("pull", self.pull), ("feature_pull", self.feature_pull)):
            if not 0.0 <= strength < math.inf:
                raise InvalidInput(f"objective.{field}", strength, "a finite number >= 0")


CROSS_ENTROPY = Objective()
EVERY_PART: frozenset[Part] = frozenset(Part)


class LocalModel(Protocol):
    """One model at the participant: parameters, batch-norm statistics and counters."""

    @property
    def values(self) -> Vector:
        """All trainable values, live: a step changes them. Use `.clone()` to keep them."""

    @property
    def loss(self) -> float:
        """The loss on the batch of the latest `step` or `gradient`, or its mean over the last epoch of the latest
        `train`, without a pull; 0 before the first."""

    @property
    def reach(self) -> float:
        """How far a constant gradient of 1 would have moved the values in the latest `train`: the step size times the
        number of steps, more with momentum. 0 before the first."""

    def assign(self, values: Vector) -> None:
        """Set all trainable values."""

    def copy_from(self, other: LocalModel) -> None:
        """Copy everything from another model of this participant, including batch-norm statistics and counters."""

    def mask(self, parts: Collection[Part]) -> Vector:
        """Return 1 for trainable values that belong to one of the parts, 0 for others."""

    def train(
        self,
        *,
        parts: Collection[Part] = EVERY_PART,
        epochs: int | None = None,
        objective: Objective = CROSS_ENTROPY,
        to_mean: bool = False,
    ) -> None:
        """Train by SGD with the plan's settings. parts: the parts to train; the rest is unchanged (except batch-norm
        statistics). epochs: None means the plan's number. to_mean: end at the mean of the values after every step
        instead of those after the last. Does nothing once the round has been stopped."""

    def step(self, batch: Batch, *, parts: Collection[Part] = EVERY_PART, objective: Objective = CROSS_ENTROPY) -> None:
        """Do one SGD step on one batch; for procedures that interleave models."""

    def gradient(self, batch: Batch, *, objective: Objective = CROSS_ENTROPY) -> Vector:
        """Return the gradient of the objective on one batch at the current values, in training mode, without a step."""

    def reestimate(self) -> None:
        """Set the batch-norm statistics to those of the participant's own training data: one forward pass."""

    def head_input_mean(self) -> Vector:
        """Return (features,): the mean of the head's inputs over the training data: one forward pass."""

    def fold_shift(self, shift: Vector) -> None:
        """Make the model predict as if `shift` (features,) were added to the head's inputs, by changing the bias."""


class Workspace(Protocol):
    """One participant's models and data in one round."""

    @property
    def model(self) -> LocalModel:
        """The model that exchanges its shared tensors with the coordinator."""

    @property
    def models(self) -> Mapping[str, LocalModel]:
        """Local models besides it, by the names in `Strategy.kept_models`; saved with every round."""

    @property
    def vectors(self) -> MutableMapping[str, Vector]:
        """Local vectors, by any name; saved with every round. Assign a new vector to change one."""

    @property
    def round_no(self) -> int:
        """The round that is delivered or trained, counted from 0 after warm-up."""

    @property
    def rounds(self) -> int:
        """Rounds of the whole run, without warm-up."""

    @property
    def learning_rate(self) -> float:
        """The step size of this round."""

    @property
    def epochs(self) -> int:
        """The plan's number of local epochs."""

    @property
    def class_counts(self) -> Vector:
        """Training samples per class (classes,); local, like everything here."""

    def received(self, name: str) -> Vector:
        """Return a flat copy of a tensor in `Strategy.beside`: as last delivered, or as set by `send` since. Zeros
        before any member has sent it."""

    def send(self, name: str, values: Vector) -> None:
        """Set the values of such a tensor for this round's update."""

    def vector(self, values: Collection[float]) -> Vector:
        """Return a new vector of these numbers."""

    def copy(self, model: LocalModel) -> LocalModel:
        """Return a working copy. There is only one: the next call overwrites it, and it is never saved."""

    def batches(self, *, epochs: int | None = None, share: float = 1.0) -> Iterator[Batch]:
        """Yield training batches in a new random order per epoch, cut as the plan says. share: the part of the data to
        use, drawn again for each epoch. Ends early if the round is stopped."""
