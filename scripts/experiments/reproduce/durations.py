"""Measured durations of targets in minutes, on two cores and without existing runs; unmeasured ones are not listed.

They are the measured processor time of the runs, divided by two. Targets that reuse runs of an earlier one take less.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Duration:
    """data: what it was measured on; full: for one seed, if runs are trained. None: not measured."""

    data: str
    quick: float | None = None
    full: float | None = None

    @property
    def words(self) -> str:
        parts = [f"{name} {minutes:g} min" for name, minutes in (("quick", self.quick), ("full", self.full)) if minutes]
        return ", ".join(parts) + f" ({self.data})" if parts else ""


MEASURED: dict[str, Duration] = {
    "datasets": Duration(data="organamnist, har, chest", full=0.1),
    "pamap2": Duration(data="har, one seed", full=5.3),
    "organa": Duration(data="organamnist, one seed", full=27),
    "covid": Duration(data="chest, LeNet-5, one seed", full=14),
    "weighting": Duration(data="har and chest, one seed", full=6.1),
    "bn": Duration(data="har and chest, one seed", full=6.1),
    "alpha": Duration(data="organamnist, one seed", full=17),
    "iterations": Duration(data="har, one seed", full=3.8),
    "variants": Duration(data="har and chest, one seed", full=15),
    "convergence": Duration(data="organamnist, one seed", full=27),
    "clients": Duration(data="organamnist, one seed", full=57),
    "epochs": Duration(data="har, one seed", full=6.8),
    "lambda": Duration(data="organamnist, one seed", full=22),
    "split": Duration(data="organamnist, har, chest", full=0.1),
    "running-stats": Duration(data="organamnist, one seed", full=2),
}
