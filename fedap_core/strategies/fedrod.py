"""FedRoD (Chen & Chao 2022): a shared head that is fair to all classes, and a head at home that knows the local ones.

The body and the shared head g are trained with the balanced softmax, CE(g(z) + ln n_c, y), and averaged. The home head
h is trained on top, CE(g(z) + h(z), y), and moves neither body nor g. Prediction is by g + h; heads are linear, so that
is one head whose values are added.
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
    """Nothing to choose: classes that a participant does not have are left out of its balanced softmax."""

    name: ClassVar[str] = "fedrod"
    label: ClassVar[str] = "FedRoD"
    paper: ClassVar[str] = "https://arxiv.org/abs/2107.00778"

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
