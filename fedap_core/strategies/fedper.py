"""FedPer (Arivazhagan et al. 2019): FedAvg with a local classification layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.parts import Part
from fedap_core.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class FedPer(Strategy):
    """The body, BN included, is averaged; the head is personal."""

    name: ClassVar[str] = "fedper"
    label: ClassVar[str] = "FedPer"
    paper: ClassVar[str] = "https://arxiv.org/abs/1912.00818"

    @property
    def home(self) -> frozenset[Part]:
        return frozenset({Part.HEAD})
