"""Your own algorithm: members keep batch norm local and take half of their model from all others in equal shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedap_core.parts import Part
from fedap_core.strategies import Evidence, Mixing, Strategy


@dataclass(frozen=True, kw_only=True)
class Half(Strategy):
    """own: the weight of a member's own model; the others share the rest."""

    name: ClassVar[str] = "half"

    own: float = 0.5

    @property
    def home(self) -> frozenset[Part]:
        return frozenset({Part.BATCH_NORM})

    def mixing(self, evidence: Evidence) -> Mixing:
        """Return W: `own` on the diagonal, equal shares elsewhere; a lone member keeps all."""
        count = len(evidence.counts)
        if count == 1:
            return Mixing(weights=np.ones((1, 1)))
        weights = np.full((count, count), (1.0 - self.own) / (count - 1))
        np.fill_diagonal(weights, self.own)
        return Mixing(weights=weights)
