"""FedAP+: FedAP with a small self-weight, momentum, and an additional personal model, which predicts.

Most of a row of W comes from others, by similarity. The delivered model goes on in the direction of the rounds before,
as FedAvgM's does, but at each participant in that of its own mixture. Besides it a participant trains a personal one,
pulled towards the delivered model as Ditto's is towards the average; it is never sent. It ends every round at the mean
of its steps, because the noise of one client's last batches is not averaged with that of others, and it moves along
with each delivery: what is personal is its distance to the delivered model, which would otherwise be a round old.
What is handed over is three quarters of it and a quarter of the delivered model, which serves better where participants
hardly differ, averaged over the last half of the rounds, but not before the thirtieth, because training that is this
quick may end in overfitting. The average forgets by as much as the training data are still predicted wrongly: while
training gains, earlier models are worse. Batch-norm statistics are those of the participant's own data. Nothing more
is sent than by FedAP. With `self_weight = 0.5`, `momentum = 0`, `personal_share = 0`, `average_last = 0` and
`reestimate = false` it is FedAP.

More options, for ablations: the head may stay local; the share that a participant keeps of its own update may change
over the rounds, be learnt, and differ between body, head and batch norm (W then contains only the others' shares, and
every participant adds its own locally).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies.ditto import PERSONAL, require_strength, train_personal
from fedap_core.strategies.fedap import FedAp
from fedap_core.strategies.fedopt import require_momentum
from fedap_core.workspace import EVERY_PART, LocalModel, Vector, Workspace

OWN = "own"
"""The vector of a participant's own update, to be mixed with the others' weights."""

LATEST = "delivered"
"""The vector of the latest delivery, from which the personal model moves to the next."""

START, STARTED, WAY = "start", "started", "way"
"""For momentum: the vector that the latest training began from, its round, and the way from the one before it, per
round."""

LEARNT = "self-weight"
MEAN, COUNT = "mean", "count"
"""The average of the models to hand over, and their number."""

LOSS = "loss"
"""The mean loss of the latest training, from which the average forgets."""

CONSTANT = -1.0

LEAST, MOST = 0.1, 0.9
"""Bounds of a learnt self-weight."""


@dataclass(frozen=True, kw_only=True)
class FedApPlus(FedAp):
    """final_self_weight: the value of `self_weight` in the last round, reached in equal steps; -1: constant.

    head_self_weight, batch_norm_self_weight: the share that a participant keeps of its own head and batch norm, which
    are then shared and mixed; 1 keeps all of it; -1: the head as `head_at_home` says, batch norm local. learning: step
    size with which every participant learns its self-weight from the gradient of its training loss; 0: not learnt.
    personal_share: the share of the second, local model in the model that is handed over; the rest is the delivered
    model; 0: no second model. It is trained once per round, with the pull `strength` towards the delivered one.
    mean_of_steps: whether it ends a round at the mean of its values after every step, or at the last. moves_along:
    whether it moves by as much as the delivered model does from one delivery to the next.
    momentum: how much of the way from the start of one round to that of the next is added to the delivery after it; 0:
    nothing. It grows over the rounds up to this value; k rounds after the latest training it is raised to the power k.
    average_last: the share of the rounds, at the end, whose models are averaged to be handed over; 0: the latest one.
    average_after: the last round whose model is not yet averaged, however few rounds there are.
    forgetting: the least share of the average that a new model replaces, in units of 1 - exp(-loss) of the latest
    training, the share of the training data that is still predicted wrongly; 0: all models count alike.
    Moving along, own shares that are added locally, and averages each need a vector of the model's size; momentum two.
    """

    name: ClassVar[str] = "fedap-plus"
    label: ClassVar[str] = "FedAP+"
    depends_on_rounds: ClassVar[bool] = True

    self_weight: float = 0.15
    reestimate: bool = True
    head_at_home: bool = False
    final_self_weight: float = CONSTANT
    head_self_weight: float = CONSTANT
    batch_norm_self_weight: float = CONSTANT
    learning: float = 0.0
    average_last: float = 0.5
    average_after: int = 30
    forgetting: float = 1.0
    personal_share: float = 0.75
    strength: float = 0.5
    mean_of_steps: bool = True
    moves_along: bool = True
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        require_strength(self.name, self.strength)
        for option in ("final_self_weight", "head_self_weight", "batch_norm_self_weight"):
            value = getattr(self, option)
            if value != CONSTANT and not 0.0 <= value <= 1.0:
                raise InvalidInput(f"fedap-plus.{option}", value, "a number in [0, 1], or -1")
        for option, what in (("average_last", "a share of the rounds"), ("personal_share", "a number")):
            if not 0.0 <= getattr(self, option) <= 1.0:
                raise InvalidInput(f"fedap-plus.{option}", getattr(self, option), f"{what} in [0, 1]")
        if self.average_after < 0:
            raise InvalidInput("fedap-plus.average_after", self.average_after, "a number of rounds >= 0")
        require_momentum(self.name, self.momentum)
        for option in ("learning", "forgetting"):
            if not 0.0 <= getattr(self, option) < float("inf"):
                raise InvalidInput(f"fedap-plus.{option}", getattr(self, option), "a finite number >= 0")
        if self.learning and self.final_self_weight != CONSTANT:
            expected = "0 with final_self_weight: a self-weight is learnt, or follows the rounds"
            raise InvalidInput("fedap-plus.learning", self.learning, expected)

    @property
    def home(self) -> frozenset[Part]:
        head = self.head_at_home and self.head_self_weight == CONSTANT
        norm = self.batch_norm_self_weight == CONSTANT
        return frozenset({*([Part.HEAD] if head else []), *([Part.BATCH_NORM] if norm else [])})

    @property
    def adds_own(self) -> bool:
        """Whether a participant adds its own share locally."""
        special = (self.final_self_weight, self.head_self_weight, self.batch_norm_self_weight)
        return self.learning > 0.0 or any(weight != CONSTANT for weight in special)

    @property
    def kept_self_weight(self) -> float | None:
        return 0.0 if self.adds_own else self.self_weight

    @property
    def kept_models(self) -> tuple[str, ...]:
        return (PERSONAL,) if self.personal_share else ()

    @property
    def kept_vectors(self) -> int:
        moves = int(self.personal_share > 0.0 and self.moves_along)
        return int(self.adds_own) + 2 * int(self.momentum > 0.0) + moves + int(self.average_last > 0.0)

    @property
    def hands_over_another(self) -> bool:
        return self.average_last > 0.0 or self.personal_share > 0.0 or self.finetune > 0 or self.reestimate

    @property
    def rounds_in_a_step(self) -> float:
        return 1.0 / (1.0 - self.momentum)

    def self_weight_at(self, round_no: int, rounds: int) -> float:
        """The share kept of the own update of the round before `round_no`, which runs from 1 to `rounds`, or beyond."""
        if self.final_self_weight == CONSTANT:
            return self.self_weight
        share = min((round_no - 1) / max(rounds - 1, 1), 1.0)
        return self.self_weight + share * (self.final_self_weight - self.self_weight)

    def momentum_at(self, round_no: int) -> float:
        """The momentum at the delivery before round `round_no`: Nesterov's sequence, t / (t + 3), up to the limit."""
        return min(self.momentum, round_no / (round_no + 3))

    def deliver(self, work: Workspace) -> None:
        if self.adds_own and OWN in work.vectors:  # there is no own update at the first delivery
            if self.learning:
                self._learn(work)
            weight = self._weight(work, work.model)
            work.model.assign(weight * work.vectors[OWN] + (1.0 - weight) * work.model.values)
        if WAY in work.vectors:
            momentum = self.momentum_at(work.round_no) ** self._rounds_since(work)
            work.model.assign(work.model.values + momentum * work.vectors[WAY])
        if self.personal_share and self.moves_along:
            self._move_along(work)
        if self.average_last and work.round_no > max((1.0 - self.average_last) * work.rounds, self.average_after):
            self._average(work)

    def train(self, work: Workspace) -> None:
        delivered = work.model.values.clone()
        if self.momentum:
            self._measure_way(work, delivered)
        super().train(work)
        if self.adds_own:
            work.vectors[OWN] = work.model.values.clone()
        if self.personal_share:
            if self.moves_along:  # there is none yet if the first delivery was refused
                work.vectors.setdefault(LATEST, delivered)
            train_personal(work, delivered, strength=self.strength, to_mean=self.mean_of_steps)
        if self.average_last and self.forgetting:
            work.vectors[LOSS] = work.vector([self._latest(work).loss])

    def hand_over(self, work: Workspace) -> LocalModel:
        latest = self._latest(work)
        if MEAN not in work.vectors and self.personal_share in (0.0, 1.0):
            return latest
        model = work.copy(latest)
        model.assign(work.vectors[MEAN] if MEAN in work.vectors else self._blend(work))
        return model

    def passes(self, epochs: int) -> int:
        return 2 * epochs if self.personal_share else epochs

    def _measure_way(self, work: Workspace, start: Vector) -> None:
        if START in work.vectors:
            way = (start - work.vectors[START]) * work.model.mask(EVERY_PART - self.home)
            work.vectors[WAY] = way / self._rounds_since(work)
        work.vectors[START], work.vectors[STARTED] = start, work.vector([work.round_no])

    def _rounds_since(self, work: Workspace) -> int:
        """The number of rounds since the participant last trained: more than one if it was absent."""
        return max(work.round_no - round(float(work.vectors[STARTED])), 1)

    def _move_along(self, work: Workspace) -> None:
        """Keep the personal model's distance to the delivered one; before its first training it has none."""
        delivered, personal = work.model.values.clone(), work.models[PERSONAL]
        personal.assign(personal.values + (delivered - work.vectors[LATEST]) if LATEST in work.vectors else delivered)
        work.vectors[LATEST] = delivered

    def _latest(self, work: Workspace) -> LocalModel:
        return work.models[PERSONAL] if self.personal_share else work.model

    def _average(self, work: Workspace) -> None:
        """Add the latest models to the average."""
        count = float(work.vectors[COUNT]) + 1.0 if COUNT in work.vectors else 1.0
        still_wrong = 1.0 - math.exp(-float(work.vectors[LOSS])) if LOSS in work.vectors else 0.0
        latest = self._blend(work)
        mean = work.vectors.get(MEAN, latest)
        work.vectors[MEAN] = mean + max(1.0 / count, min(self.forgetting * still_wrong, 1.0)) * (latest - mean)
        work.vectors[COUNT] = work.vector([count])

    def _blend(self, work: Workspace) -> Vector:
        """The values that are handed over, or averaged for that."""
        if not self.personal_share:
            return work.model.values
        personal, share = work.models[PERSONAL].values, self.personal_share
        return personal if share == 1.0 else share * personal + (1.0 - share) * work.model.values

    def _weight(self, work: Workspace, model: LocalModel) -> Vector | float:
        """The share kept of the own update: of everything, or by part."""
        common = self.self_weight_at(work.round_no, work.rounds)
        if LEARNT in work.vectors:
            common = float(work.vectors[LEARNT])
        special = {Part.HEAD: self.head_self_weight, Part.BATCH_NORM: self.batch_norm_self_weight}
        if all(weight == CONSTANT for weight in special.values()):
            return common
        weights = common * model.mask(frozenset(Part))
        for part, weight in special.items():
            if weight != CONSTANT:
                weights = weights + (weight - common) * model.mask({part})
        return weights

    def _learn(self, work: Workspace) -> None:
        """Do one gradient step on the training loss along the line from the others' weights to the own ones."""
        others = work.model.values.clone()
        way = work.vectors[OWN] - others
        common = float(work.vectors[LEARNT]) if LEARNT in work.vectors else self.self_weight
        trial = work.copy(work.model)
        trial.assign(others + common * way)
        slopes = [float(trial.gradient(batch).dot(way)) for batch in work.batches(epochs=1, share=0.5)]
        slope = sum(slopes) / max(len(slopes), 1)
        work.vectors[LEARNT] = work.vector([min(MOST, max(LEAST, common - self.learning * slope))])
