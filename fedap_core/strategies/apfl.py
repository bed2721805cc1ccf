"""APFL (Deng et al. 2020): every participant predicts with a mixture of its own model and the global one.

The global model w is trained as in FedAvg. The own model v is trained through the mixture u = alpha v + (1 - alpha) w:
v moves by alpha times the SGD step of u on each batch. alpha follows the gradient of the loss at u, once per round:
alpha <- alpha - eta <grad L(u), v - w>. v and alpha are never sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import LocalModel, Workspace

PERSONAL, ALPHA = "personal", "alpha"


@dataclass(frozen=True, kw_only=True)
class Apfl(Strategy):
    """alpha: the initial share of the own model; 0 is FedAvg. adaptive: whether it is learnt."""

    name: ClassVar[str] = "apfl"
    label: ClassVar[str] = "APFL"
    paper: ClassVar[str] = "https://arxiv.org/abs/2003.13461"
    keeps: ClassVar[tuple[str, ...]] = (PERSONAL,)

    alpha: float = 0.5
    adaptive: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.alpha <= 1.0:
            raise InvalidInput("apfl.alpha", self.alpha, "a number in [0, 1]")

    def begin(self, work: Workspace) -> None:
        work.vectors[ALPHA] = work.vector([self.alpha])

    def train(self, work: Workspace) -> None:
        personal, alpha = work.models[PERSONAL], work.vectors[ALPHA]
        own, mixture = personal.values.clone(), work.copy(personal)
        for number, batch in enumerate(work.batches()):
            start = alpha * own + (1.0 - alpha) * work.model.values
            mixture.assign(start)
            if self.adaptive and number == 0:
                slope = mixture.gradient(batch).dot(own - work.model.values)
                alpha = (alpha - work.learning_rate * slope).clip(0.0, 1.0)
            mixture.step(batch)
            own = own + alpha * (mixture.values - start)
            work.model.step(batch)
        personal.copy_from(mixture)  # for the mixture's batch-norm statistics
        personal.assign(own)
        work.vectors[ALPHA] = alpha

    def hand_over(self, work: Workspace) -> LocalModel:
        alpha, personal = work.vectors[ALPHA], work.models[PERSONAL]
        mixture = work.copy(personal)
        mixture.assign(alpha * personal.values + (1.0 - alpha) * work.model.values)
        return mixture

    def passes(self, epochs: int) -> int:
        return 2 * epochs
