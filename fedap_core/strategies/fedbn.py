"""FedBN (Li et al. 2021): FedAvg with local batch-norm layers, both parameters and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.parts import Part
from fedap_core.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class FedBn(Strategy):
    """Everything except BN is averaged."""

    name: ClassVar[str] = "fedbn"
    label: ClassVar[str] = "FedBN"
    paper: ClassVar[str] = "https://arxiv.org/abs/2102.07623"
    needs_batch_norm: ClassVar[bool] = True

    @property
    def home(self) -> frozenset[Part]:
        return frozenset({Part.BATCH_NORM})


@dataclass(frozen=True, kw_only=True)
class UnweightedFedAp(FedBn):
    """FedAP without its weighting: the paper's ablation, which is FedBN under another name."""

    name: ClassVar[str] = "fedap-unweighted"
    label: ClassVar[str] = "FedAP, unweighted"
