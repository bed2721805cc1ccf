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


_SYMBOLS = {"self_weight": "λ", "mu": "μ"}
_SWITCHES = frozenset({"true", "yes", "1"})
_SWITCHED = {"full_covariance": "full covariance", "equal": "equal weights"}
"""Options that are on or off, and what is written where they are on."""


def option_in_short(key: str, value: str) -> str:
    """`self_weight`, `0.7` as `λ=0.7`; a switch that is on as its words; everything else as key=value."""
    if key in _SWITCHED and value.lower() in _SWITCHES:
        return _SWITCHED[key]
    return f"{_SYMBOLS.get(key, key)}={value}"


def written(label: str) -> str:
    """`fedap:self_weight=0.3` as `FedAP:self_weight=0.3`; unknown names stay as they are."""
    name, colon, options = label.partition(":")
    return NAMES.get(name, name) + colon + options
