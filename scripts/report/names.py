"""How algorithms are written for readers: the paper's spelling, in one table. Knows no numbers and no files."""

from __future__ import annotations

NAMES = {
    "base": "Base",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedper": "FedPer",
    "fedbn": "FedBN",
    "fedap": "FedAP",
    "d-fedap": "d-FedAP",
    "f-fedap": "f-FedAP",
    "fedap-sbn": "FedAP, shared BN",
    "fedap-unweighted": "FedAP, unweighted",
}


def written(label: str) -> str:
    """`fedap:self_weight=0.3` as `FedAP:self_weight=0.3`; unknown names stay as they are."""
    name, colon, options = label.partition(":")
    return NAMES.get(name, name) + colon + options
