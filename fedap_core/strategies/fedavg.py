"""FedAvg (McMahan et al. 2017): one model for all, the mean of the updates weighted by training samples.

BN parameters and running statistics are shared like everything else; counters stay local, as integers always do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class FedAvg(Strategy):
    """The base class, unchanged."""

    name: ClassVar[str] = "fedavg"
    label: ClassVar[str] = "FedAvg"
    paper: ClassVar[str] = "https://arxiv.org/abs/1602.05629"
