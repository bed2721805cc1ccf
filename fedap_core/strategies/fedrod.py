"""FedRoD (Chen & Chao 2022): a shared head that is balanced over all classes, and a local head for the local classes.

The body and the shared head g are trained with the balanced softmax, CE(g(z) + ln n_c, y), and averaged. The local head
h is trained on top, CE(g(z) + h(z), y), and changes neither body nor g. Predictions use g + h; heads are linear, so
this is one head with the values of both added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.parts import Part
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import LocalModel, Objective, Workspace

HOME_HEAD = "home-head"


@dataclass(frozen=True, kw_only=True)
class FedRod(Strategy):
    """No options. Classes that a participant does not have are left out of its balanced softmax."""

    name: ClassVar[str] = "fedrod"
    label: ClassVar[str] = "FedRoD"
    paper: ClassVar[str] = "https://arxiv.org/abs/2107.00778"

    @property
    def kept_vectors(self) -> int:
        return 1

    def begin(self, work: Workspace) -> None:
        work.vectors[HOME_HEAD] = work.model.values * 0.0

    def train(self, work: Workspace) -> None:
        home_head, is_head = work.vectors[HOME_HEAD], work.model.mask({Part.HEAD})
        balanced = Objective(logit_offset=work.class_counts.log())
        both = work.copy(work.model)
        for batch in work.batches():
            start = work.model.values + home_head
            both.assign(start)
            both.step(batch, parts={Part.HEAD})
            home_head = home_head + (both.values - start) * is_head
            work.model.step(batch, objective=balanced)
        work.vectors[HOME_HEAD] = home_head

    def hand_over(self, work: Workspace) -> LocalModel:
        both = work.copy(work.model)
        both.assign(both.values + work.vectors[HOME_HEAD])
        return both

    def passes(self, epochs: int) -> int:
        return 2 * epochs
