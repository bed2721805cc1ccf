"""Evaluates measurements: medians, ratios of things measured side by side, their spread, thresholds and verdicts.

Pure: numbers in, numbers and words out. A ratio is taken pass by pass, because things that ran side by side had the
same conditions; its spread is the range over the passes, and no verdict hides it. Does not know what was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """One thing measured once in every pass, in the order of the passes."""

    name: str
    unit: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values or not all(value > 0.0 for value in self.values):
            raise InvalidInput(f"measurement of {self.name}", self.values, "one number above 0 for each pass")

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """(largest - smallest) / median: 0 if every pass gave the same value, or there was only one."""
        return (max(self.values) - min(self.values)) / self.median


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """What must be reached, and what should be. higher: larger numbers are better."""

    must: float
    goal: float | None = None
    higher: bool = False

    def reaches(self, value: float, mark: float) -> bool:
        return value >= mark if self.higher else value <= mark


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """One line of the result. value: the median over passes; low, high: their range. unit "x" is a ratio."""

    what: str
    value: float
    low: float
    high: float
    unit: str = "x"
    bar: Threshold | None = None

    @property
    def verdict(self) -> str:
        """Which threshold was met, and whether another pass would have decided otherwise."""
        if self.bar is None:
            return "–"
        word, marks = self._judged(self.bar)
        worst, best = (self.low, self.high) if self.bar.higher else (self.high, self.low)
        turns = any(self.bar.reaches(best, mark) and not self.bar.reaches(worst, mark) for mark in marks)
        return f"{word}, within the noise" if turns else word

    def _judged(self, bar: Threshold) -> tuple[str, list[float]]:
        """Return the verdict on the median, and the marks next to it that decide."""
        goal = [] if bar.goal is None else [bar.goal]
        if goal and bar.reaches(self.value, goal[0]):
            return "goal met", goal
        if bar.reaches(self.value, bar.must):
            return "met", [bar.must]
        return "MISSED", [bar.must]

    @property
    def is_missed(self) -> bool:
        return self.bar is not None and not self.bar.reaches(self.value, self.bar.must)


def ratio(
    what: str, ours: Measurements, other: Measurements, bar: Threshold | None = None, *, factor: float = 1.0
) -> BenchResult:
    """Return ours / (factor * other), pass by pass: the median of these quotients, and their range."""
    if len(ours.values) != len(other.values):
        raise InvalidInput(what, f"{len(ours.values)} and {len(other.values)} passes", "the same passes of both")
    quotients = [mine / (factor * theirs) for mine, theirs in zip(ours.values, other.values, strict=True)]
    return _over(what, quotients, "x", bar)


def quantity(what: str, measured: Measurements, bar: Threshold | None = None) -> BenchResult:
    """Return a figure in its own unit, for bars that are set in that unit."""
    return _over(what, measured.values, measured.unit, bar)


def _over(what: str, values: Sequence[float], unit: str, bar: Threshold | None) -> BenchResult:
    return BenchResult(
        what=what, value=statistics.median(values), low=min(values), high=max(values), unit=unit, bar=bar
    )


def noise_sentence(series: Mapping[str, Measurements]) -> str:
    """Say how far passes of the same thing differed, typically and at most."""
    repeated = [one for one in series.values() if len(one.values) > 1]
    if not repeated:
        return "Noise: unknown, because there was only one pass."
    worst = max(repeated, key=lambda one: one.spread)
    typical = statistics.median(one.spread for one in repeated)
    return (
        f"Noise: passes of the same thing lay {100 * typical:.0f} % apart (median), at most {100 * worst.spread:.0f} % "
        f"({worst.name}); smaller differences mean nothing."
    )


def number(value: float) -> str:
    """Write a number with about three significant digits."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.095 else f"{value:.3g}"
