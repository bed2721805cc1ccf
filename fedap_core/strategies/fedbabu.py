"""FedBABU (Oh et al. 2022): the body is trained and averaged under a fixed head; then the model is fine-tuned.

All participants keep the head of the initial model, so it need not be sent. The model that is handed over is a copy,
fine-tuned as a whole; rounds continue from the averaged model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.parts import Part
from fedap_core.strategies.fedper import FedPer
from fedap_core.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class FedBabu(FedPer):
    """finetune: epochs over the participant's own data before the model is handed over; the paper's number is 5."""

    name: ClassVar[str] = "fedbabu"
    label: ClassVar[str] = "FedBABU"
    paper: ClassVar[str] = "https://arxiv.org/abs/2106.06042"

    finetune: int = 5

    def train(self, work: Workspace) -> None:
        work.model.train(parts={Part.BODY, Part.BATCH_NORM})
