"""The local objective as data: a name and a strength, so that it can travel in a plan and be checked without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class ObjectiveSpec:
    """Which local loss a participant minimises. `strength` is the weight of the term beside cross-entropy, if any."""

    name: str = "cross-entropy"
    strength: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and self.strength >= 0.0):
            raise InvalidInput("objective.strength", self.strength, "a finite number >= 0")
