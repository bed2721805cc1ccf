"""FedALA (Zhang et al. 2023): a participant learns, for every value of its head, how much of the delivered one to take.

With x delivered and theta its own head of the previous round, it starts from theta + (x - theta) * a, value by value;
the body is used as delivered. a starts at 1 and is learnt locally on a random share of the data before training:
a <- clip(a - rate * dL/dtheta_hat * (x - theta), 0, 1). In the first round until the loss settles, later for one epoch.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import pstdev
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import Workspace

OWN, SHARES = "own", "shares"
SETTLED_EPOCHS = 10
"""The loss has settled if its standard deviation over this many epochs is below `settled`."""
MOST_EPOCHS = 50


@dataclass(frozen=True, kw_only=True)
class FedAla(Strategy):
    """rate: step size of a. share: the share of the data on which a is learnt. settled: see `SETTLED_EPOCHS`."""

    name: ClassVar[str] = "fedala"
    label: ClassVar[str] = "FedALA"
    paper: ClassVar[str] = "https://arxiv.org/abs/2212.01197"

    rate: float = 1.0
    share: float = 0.8
    settled: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.rate < math.inf:
            raise InvalidInput("fedala.rate", self.rate, "a finite number > 0")
        if not 0.0 < self.share <= 1.0:
            raise InvalidInput("fedala.share", self.share, "a number above 0, at most 1")

    @property
    def kept_vectors(self) -> int:
        return 2

    def deliver(self, work: Workspace) -> None:
        own = work.vectors.get(OWN)
        if own is None:  # the first delivery: there is nothing to merge with
            return
        received = work.model.values.clone()
        difference = (received - own) * work.model.mask({Part.HEAD})
        is_first = SHARES not in work.vectors
        shares = difference * 0.0 + 1.0 if is_first else work.vectors[SHARES]
        trial = work.copy(work.model)
        losses: deque[float] = deque(maxlen=SETTLED_EPOCHS)
        for _ in range(MOST_EPOCHS if is_first else 1):
            for batch in work.batches(epochs=1, share=self.share):
                trial.assign(received + difference * (shares - 1.0))
                shares = (shares - self.rate * trial.gradient(batch) * difference).clip(0.0, 1.0)
            losses.append(trial.loss)
            if len(losses) == SETTLED_EPOCHS and pstdev(losses) < self.settled:
                break
        work.vectors[SHARES] = shares
        work.model.assign(received + difference * (shares - 1.0))

    def train(self, work: Workspace) -> None:
        work.model.train()
        work.vectors[OWN] = work.model.values.clone()

    def passes(self, epochs: int) -> int:
        return epochs + 1
