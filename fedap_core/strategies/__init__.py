"""The table of algorithms. To add one, write a short file here and one line below. Users' own algorithms are named
`package.module:factory`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fedap_core.errors import InvalidInput, require_known, unknown_name
from fedap_core.factories import find_factory, users_code
from fedap_core.parts import Part
from fedap_core.strategies.apfl import Apfl
from fedap_core.strategies.base import Evidence, Measure, Mixing, Phase, RoundPlan, Strategy
from fedap_core.strategies.ditto import Ditto
from fedap_core.strategies.fedala import FedAla
from fedap_core.strategies.fedamp import FedAmp
from fedap_core.strategies.fedap import DFedAp, FedAp, FFedAp, SharedBnFedAp
from fedap_core.strategies.fedap_plus import FedApPlus
from fedap_core.strategies.fedavg import FedAvg
from fedap_core.strategies.fedbabu import FedBabu
from fedap_core.strategies.fedbn import FedBn, UnweightedFedAp
from fedap_core.strategies.feddbe import FedDbe
from fedap_core.strategies.fedopt import FedAdam, FedAvgM
from fedap_core.strategies.fedper import FedPer
from fedap_core.strategies.fedprox import FedProx
from fedap_core.strategies.fedrep import FedRep
from fedap_core.strategies.fedrod import FedRod
from fedap_core.strategies.local import Base
from fedap_core.strategies.pfedsim import PFedSim
from fedap_core.strategies.scaffold import Scaffold

__all__ = [
    "STRATEGIES",
    "Evidence",
    "Measure",
    "Mixing",
    "Phase",
    "RoundPlan",
    "Strategy",
    "make_strategy",
    "mixing_of_phase",
    "sealing_objection",
]

STRATEGIES: dict[str, type[Strategy]] = {
    "base": Base,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedper": FedPer,
    "fedbn": FedBn,
    "fedap": FedAp,
    "d-fedap": DFedAp,
    "f-fedap": FFedAp,
    "fedap-sbn": SharedBnFedAp,
    "fedap-unweighted": UnweightedFedAp,
    "ditto": Ditto,
    "fedap-plus": FedApPlus,
    "fedrep": FedRep,
    "fedbabu": FedBabu,
    "apfl": Apfl,
    "fedala": FedAla,
    "feddbe": FedDbe,
    "fedamp": FedAmp,
    "pfedsim": PFedSim,
    "fedrod": FedRod,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "scaffold": Scaffold,
}

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_EXPECTED: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number"}


def make_strategy(name: str, options: Mapping[str, object] | None = None) -> Strategy:
    """Create the strategy of that name, or of a user's factory, with its options; text values are converted."""
    kind = _user_strategy(name) if ":" in name else STRATEGIES.get(name)
    if kind is None:
        raise unknown_name("algorithm", name, STRATEGIES)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values: dict[str, object] = {}
    for key, value in (options or {}).items():
        if key in ("lambda", "λ") and "self_weight" in fields:
            raise InvalidInput(f"option of {name}", key, "self_weight, which is the paper's λ")
        require_known(f"option of {name}", key, fields)
        values[key] = _convert(f"{name}.{key}", value, type(fields[key].default))
    if ":" not in name:
        return kind(**values)  # type: ignore[arg-type]
    with users_code("algorithm", name, "a Strategy that can be made from its options"):
        return kind(**values)  # type: ignore[arg-type]


def mixing_of_phase(strategy: Strategy, phase: Phase, evidence: Evidence) -> Mixing:
    """Return W of a full round, for every engine: FedAvg's in warm-up, the strategy's own in other phases."""
    return FedAvg().mixing(evidence) if phase is Phase.WARMUP else strategy.mixing_of(phase, evidence)


def sealing_objection(strategy: Strategy) -> str:
    """Why an algorithm cannot be mixed without seeing values; empty if it can."""
    if strategy.robust != "none":
        return f"robust = {strategy.robust} compares updates"
    if strategy.mixes_by_values:
        return f"the weights of {strategy.name} depend on the values of updates"
    if strategy.is_sparse:
        return f"the peers of {strategy.name} are chosen again in every round"
    if strategy.home >= frozenset(Part):
        return f"{strategy.name} shares nothing, so there is nothing to seal"
    return ""


def _user_strategy(name: str) -> type[Strategy]:
    found = find_factory("algorithm", name)
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise InvalidInput("algorithm", name, "a subclass of fedap_core.strategies.Strategy")
    return found


def _convert(field: str, value: object, kind: type) -> object:
    """Convert text from a command line to the field's type; other values must already have it."""
    converted = value
    try:
        if kind is bool and isinstance(value, str):
            converted = _BOOLEANS.get(value.lower(), value)
        elif (kind in (int, float) and isinstance(value, str)) or (kind is float and type(value) is int):
            converted = kind(value)
        elif kind is int and type(value) is float and value.is_integer():  # numbers in a plan are floats
            converted = int(value)
    except ValueError as error:
        raise InvalidInput(field, value, _EXPECTED[kind]) from error
    if not isinstance(converted, kind) or (isinstance(converted, bool) and kind is not bool):
        raise InvalidInput(field, value, _EXPECTED.get(kind, kind.__name__))
    return converted
