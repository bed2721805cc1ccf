"""Lists the targets in display order. To add one, write it into its family's file and add its name here."""

from __future__ import annotations

from fedap_core.errors import unknown_name
from scripts.experiments.reproduce import ablation, accuracy, convergence, description, running_stats, sensitivity
from scripts.experiments.reproduce.target import Target

ORDER = (
    "datasets", "pamap2", "organa", "organc", "organs", "covid", "weighting", "bn", "alpha", "iterations", "variants",
    "convergence", "clients", "epochs", "lambda", "split", "running-stats",
)  # fmt: skip

_FAMILIES = (accuracy, ablation, sensitivity, convergence, description, running_stats)
_FOUND = {target.name: target for family in _FAMILIES for target in family.TARGETS}
TARGETS: dict[str, Target] = {name: _FOUND[name] for name in ORDER}


def find_target(name: str) -> Target:
    """Return the target of that name."""
    if name not in TARGETS:
        raise unknown_name("target", name, [*TARGETS, "all", "list"])
    return TARGETS[name]
