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

MEASURED_MIN: dict[str, tuple[float, str]] = {
    "datasets": (0.1, "organamnist, har, chest"),
    "pamap2": (5.3, "har, one seed"),
    "organa": (27, "organamnist, one seed"),
    "covid": (14, "chest, LeNet-5, one seed"),
    "weighting": (6.1, "har and chest, one seed"),
    "bn": (6.1, "har and chest, one seed"),
    "alpha": (17, "organamnist, one seed"),
    "iterations": (3.8, "har, one seed"),
    "variants": (15, "har and chest, one seed"),
    "convergence": (27, "organamnist, one seed"),
    "clients": (57, "organamnist, one seed"),
    "epochs": (6.8, "har, one seed"),
    "lambda": (22, "organamnist, one seed"),
    "split": (0.1, "organamnist, har, chest"),
    "running-stats": (2, "organamnist, one seed"),
}
"""Minutes that full targets took on two cores without existing runs, and on which data: the processor time of the runs,
divided by two. Targets that reuse runs of an earlier one take less."""


def find_target(name: str) -> Target:
    """Return the target of that name."""
    if name not in TARGETS:
        raise unknown_name("target", name, [*TARGETS, "all", "list"])
    return TARGETS[name]
