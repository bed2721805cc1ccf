"""SCAFFOLD (Karimireddy et al. 2020): FedAvg with local gradients corrected by estimates of the others' gradients.

Every participant has a control variate c_i, an estimate of its gradient, and c is their mean. A local step uses
grad L(y) + c - c_i; after a round from x to y, c_i <- c_i - c + (x - y) / (eta K) with K steps (the paper's option II).
With momentum, eta K is the distance that a constant unit gradient would have moved, so that c_i stays an average of
gradients. c_i is sent beside the weights and mixed by the same W, so c is weighted like the models. Two differences
from the paper: the coordinator's step size is 1, and c is the mean over the members of a round instead of all members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part, TensorSpec
from fedap_core.strategies.base import Strategy
from fedap_core.workspace import Objective, Workspace

CONTROL = "scaffold.control"
"""Sent: c_i. Received: c. As many values as there are trained ones."""

OWN = "own-control"


@dataclass(frozen=True, kw_only=True)
class Scaffold(Strategy):
    """No options of its own."""

    name: ClassVar[str] = "scaffold"
    label: ClassVar[str] = "SCAFFOLD"
    paper: ClassVar[str] = "https://arxiv.org/abs/1910.06378"
    needs_barrier: ClassVar[bool] = True

    def beside(self, spec: ModelSpec) -> tuple[TensorSpec, ...]:
        trained = sum(tensor.size for tensor in spec.tensors if tensor.trainable)
        return (TensorSpec(name=CONTROL, shape=(trained,), part=Part.BODY, trainable=False),)

    @property
    def kept_vectors(self) -> int:
        return 1

    def begin(self, work: Workspace) -> None:
        work.vectors[OWN] = work.model.values * 0.0

    def train(self, work: Workspace) -> None:
        start, common, own = work.model.values.clone(), work.received(CONTROL), work.vectors[OWN]
        work.model.train(objective=Objective(shift=common - own))
        if work.model.reach > 0.0:
            own = own - common + (start - work.model.values) / work.model.reach
        work.vectors[OWN] = own
        work.send(CONTROL, own)
