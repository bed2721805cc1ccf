"""Numbers that the paper states, each with the place where it is found.

Lu et al., «Personalized Federated Learning with Adaptive Batchnorm for Healthcare», 2022. Only averages: per-client
rows belong to splits that are not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class AccuracyTable:
    """The row `avg` of a table: mean accuracy over 20 clients and three trials, in per cent, by algorithm."""

    data: str
    where: str
    averages: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, value in self.averages.items():
            if not 0.0 < value < 100.0:
                raise InvalidInput(f"{self.where}: {name}", value, "per cent")


def _table(data: str, where: str, *averages: float) -> AccuracyTable:
    """Build a table from averages in the order of the paper's columns."""
    columns = ("base", "fedavg", "fedbn", "fedprox", "fedper", "fedap")
    return AccuracyTable(data=data, where=where, averages=dict(zip(columns, averages, strict=True)))


ACCURACY: dict[str, AccuracyTable] = {
    table.data: table
    for table in (
        _table("pamap2", "Table 2, row avg", 69.07, 67.58, 67.56, 67.52, 64.59, 81.14),
        _table("organamnist", "Table 3, row avg", 48.04, 84.06, 89.28, 84.11, 70.02, 92.62),
        _table("organcmnist", "Table 4, row avg", 48.64, 78.36, 88.18, 78.30, 71.14, 92.02),
        _table("organsmnist", "Table 5, row avg", 38.15, 64.80, 80.44, 64.90, 74.55, 84.38),
    )
}

PAMAP2_LEAD = 10.0
"""Section «Classification Accuracy»: on PAMAP2 FedAP is ahead by «over 10 % on average»."""
ORGAN_LEAD = 3.5
"""Same section: «over 3.5 % on average» over the three Organ sets."""
COVID_LEAD = 6.3
"""Same section: «outperforms the second-best method FedPer by 6.3 %»."""
FEDAP_CONVERGES_IN = 10
"""Section «Convergence and Parameter Sensitivity»: «almost convergences in the 10th round»."""
FEDAP_ROUNDS = 20
FEDBN_ROUNDS = 400
"""Same section: «20 rounds are enough for our method while FedBN needs over 400 rounds»."""


@dataclass(frozen=True, kw_only=True)
class DataRow:
    """A row of Table 1. For PAMAP2 a sample is one raw time step; everywhere else it is an image."""

    data: str
    kind: str
    classes: int
    samples: int


DATA_TABLE: dict[str, DataRow] = {
    row.data: row
    for row in (
        DataRow(data="pamap2", kind="Sensor-based time series", classes=18, samples=3_850_505),
        DataRow(data="covid", kind="Image", classes=4, samples=9_208),
        DataRow(data="organamnist", kind="Image", classes=11, samples=58_850),
        DataRow(data="organcmnist", kind="Image", classes=11, samples=23_660),
        DataRow(data="organsmnist", kind="Image", classes=11, samples=25_221),
    )
}
