"""Base: every participant trains alone. Nothing is shared, so updates carry only metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedap_core import mixing
from fedap_core.parts import Part
from fedap_core.strategies.base import Evidence, Mixing, Strategy


@dataclass(frozen=True, kw_only=True)
class Base(Strategy):
    """Every part stays local; W is the identity."""

    name: ClassVar[str] = "base"
    label: ClassVar[str] = "Base"

    @property
    def home(self) -> frozenset[Part]:
        return frozenset(Part)

    def mixing(self, evidence: Evidence) -> Mixing:
        return Mixing(weights=mixing.identity_mixing(len(evidence.counts)))
