"""FedRep (Collins et al. 2021): a shared body and a local head, trained one after the other in every round.

First the head on the delivered body, for `head_epochs`; then the body under that head, for the plan's epochs. With both
trained at once it would be FedPer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies.fedper import FedPer
from fedap_core.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class FedRep(FedPer):
    """head_epochs: passes over the data that train only the head."""

    name: ClassVar[str] = "fedrep"
    label: ClassVar[str] = "FedRep"
    paper: ClassVar[str] = "https://arxiv.org/abs/2102.07078"

    head_epochs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_epochs < 1:
            raise InvalidInput("fedrep.head_epochs", self.head_epochs, "at least 1")

    def train(self, work: Workspace) -> None:
        work.model.train(parts={Part.HEAD}, epochs=self.head_epochs)
        work.model.train(parts={Part.BODY, Part.BATCH_NORM})

    def passes(self, epochs: int) -> int:
        return self.head_epochs + epochs
