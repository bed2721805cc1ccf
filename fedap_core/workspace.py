"""What an algorithm works with at a participant: models, vectors, batches. Types only; torch implements them elsewhere.

The coordinator imports every strategy and must not load torch, so a strategy's file is written against these protocols
(`participant.training.workspace` implements them). A vector is flat and float32: all trainable values of a model in the
same order for all models of one participant, or one entry per class, or whatever the strategy makes of it. Vectors are
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
"""Scores of the model as it came from the coordinator (and went through `Strategy.deliver`), before local training."""

HANDED_OVER = "handed-over"
"""Scores of the model that the participant would keep if the run ended now (`Strategy.hand_over`), where it is another
one than the delivered model."""

TRAINED = "trained"
"""Scores of a model after local training."""

_HEADLINE = (HANDED_OVER, DELIVERED, TRAINED)


def headline_rank(model: str) -> int:
    """Of several scores of one round the one with the lowest rank is the headline."""
    return _HEADLINE.index(model) if model in _HEADLINE else len(_HEADLINE)


Operand = Any
"""A vector or a number. Not written as a type of its own: torch's and numpy's own signatures know only theirs."""

Index = Any
"""A slice, or a mask that is a vector of truth values."""

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

    pull: adds pull / 2 * ||values - towards||^2. towards: None is the values with which training begins.
    shift: a vector that is added to every gradient (SCAFFOLD: c - c_i).
    logit_offset: a vector (classes,) that is added to the logits before the cross-entropy (balanced softmax: ln n_c).
    head_shift: a vector (features,) that is added to the head's inputs, and learnt: every step of training moves it in
    place by plain SGD. feature_pull: adds feature_pull * mean((m - feature_mean)^2) over the features, where m is a
    batch's mean of the head's inputs without the shift.
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
        """All trainable values, live: a step changes them. Take `.clone()` to remember them."""

    @property
    def loss(self) -> float:
        """Of the batch of the latest `step` or `gradient`; 0 before the first."""

    @property
    def reach(self) -> float:
        """How far a constant gradient of 1 would have moved the values in the latest `train`: the step size times the
        number of steps, more with momentum. 0 before the first."""

    def assign(self, values: Vector) -> None:
        """Set all trainable values."""

    def copy_from(self, other: LocalModel) -> None:
        """Take over everything of another model of this participant, batch-norm statistics and counters included."""

    def mask(self, parts: Collection[Part]) -> Vector:
        """1 where a trainable value belongs to one of the parts, 0 elsewhere."""

    def train(
        self,
        *,
        parts: Collection[Part] = EVERY_PART,
        epochs: int | None = None,
        objective: Objective = CROSS_ENTROPY,
    ) -> None:
        """SGD as the plan says. parts: what is trained; the rest stays as it is (batch-norm statistics always move).
        epochs: None is the plan's number. Does nothing once the round has been stopped."""

    def step(self, batch: Batch, *, parts: Collection[Part] = EVERY_PART, objective: Objective = CROSS_ENTROPY) -> None:
        """One step of SGD on one batch; for procedures that interleave models."""

    def gradient(self, batch: Batch, *, objective: Objective = CROSS_ENTROPY) -> Vector:
        """The gradient of the objective on one batch at the present values, in training mode; nothing is stepped."""

    def reestimate(self) -> None:
        """Set the batch-norm statistics to those of the participant's own training data: one forward pass."""

    def head_input_mean(self) -> Vector:
        """(features,): the mean of the head's inputs over the participant's training data: one forward pass."""

    def fold_shift(self, shift: Vector) -> None:
        """Make the model predict as if `shift` (features,) were added to the head's inputs: the bias takes it up."""


class Workspace(Protocol):
    """Everything of one participant in one round."""

    @property
    def model(self) -> LocalModel:
        """The model that exchanges its shared tensors with the coordinator."""

    @property
    def models(self) -> Mapping[str, LocalModel]:
        """Models kept at home beside it, by the names in `Strategy.kept_models`; saved with every round."""

    @property
    def vectors(self) -> MutableMapping[str, Vector]:
        """Vectors kept at home, by any name; saved with every round. Assign a new vector to change one."""

    @property
    def round_no(self) -> int:
        """The round that is delivered or trained, counted from 0, warm-up left out."""

    @property
    def rounds(self) -> int:
        """Rounds of the whole run, warm-up left out."""

    @property
    def learning_rate(self) -> float:
        """The step size of this round."""

    @property
    def epochs(self) -> int:
        """The plan's number of local epochs."""

    @property
    def class_counts(self) -> Vector:
        """Training samples per class (classes,); stays at home like everything here."""

    def received(self, name: str) -> Vector:
        """A copy of a tensor in `Strategy.beside`, flat: as it was delivered last, or sent since. Zeros before any
        member has sent it."""

    def send(self, name: str, values: Vector) -> None:
        """Set what such a tensor is sent as with this round's update."""

    def vector(self, values: Collection[float]) -> Vector:
        """A new vector of these numbers."""

    def copy(self, model: LocalModel) -> LocalModel:
        """A working copy. There is one: it is overwritten by the next call, and never saved."""

    def batches(self, *, epochs: int | None = None, share: float = 1.0) -> Iterator[Batch]:
        """Training batches in the order of a fresh permutation per epoch, cut as the plan says. share: how much of the
        data, drawn anew for each epoch. Ends early when the round is stopped."""
