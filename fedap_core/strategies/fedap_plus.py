"""FedAP+: FedAP whose classification layer stays home too, and whose batch norm is re-estimated before it predicts.

W mixes the body. The options switch its parts off one by one, for ablations: with `head_at_home = false` and
`reestimate = false` it is FedAP. The share that a participant keeps of its own update may change over the rounds: a
narrow mix is quick in the beginning, a wide one better in the end. W then holds the others' shares alone, and every
participant adds its own at home, so nothing more is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies.fedap import FedAp
from fedap_core.workspace import Workspace

OWN = "own"
"""The vector of a participant's own update, to be mixed with what the others give."""

CONSTANT = -1.0


@dataclass(frozen=True, kw_only=True)
class FedApPlus(FedAp):
    """final_self_weight: what `self_weight` becomes by the last round, in equal steps; -1 leaves it as it is.

    A changing self-weight needs a second vector of the model's size at home.
    """

    name: ClassVar[str] = "fedap-plus"
    label: ClassVar[str] = "FedAP+"
    depends_on_rounds: ClassVar[bool] = True

    reestimate: bool = True
    head_at_home: bool = True
    final_self_weight: float = CONSTANT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.final_self_weight != CONSTANT and not 0.0 <= self.final_self_weight <= 1.0:
            raise InvalidInput("fedap-plus.final_self_weight", self.final_self_weight, "a number in [0, 1], or -1")

    @property
    def home(self) -> frozenset[Part]:
        return frozenset({Part.BATCH_NORM, Part.HEAD}) if self.head_at_home else frozenset({Part.BATCH_NORM})

    @property
    def changes(self) -> bool:
        """Whether the self-weight changes over the rounds."""
        return self.final_self_weight != CONSTANT

    @property
    def kept_self_weight(self) -> float | None:
        return 0.0 if self.changes else self.self_weight

    def self_weight_at(self, round_no: int, rounds: int) -> float:
        """What is kept of one's own update of the round before `round_no`, which goes from 1 to `rounds`."""
        share = (round_no - 1) / max(rounds - 1, 1)
        return self.self_weight + share * (self.final_self_weight - self.self_weight)

    def deliver(self, work: Workspace) -> None:
        if not self.changes or OWN not in work.vectors:  # nothing of one's own in the first delivery
            return
        own, weight = work.vectors[OWN], self.self_weight_at(work.round_no, work.rounds)
        work.model.assign(weight * own + (1.0 - weight) * work.model.values)

    def train(self, work: Workspace) -> None:
        super().train(work)
        if self.changes:
            work.vectors[OWN] = work.model.values.clone()
