"""Computes accuracy against time over seeds: curves, the time at which a level is reached, and the study's tables.

Times are in seconds, virtual or real; a model counts from its delivery until the next one is delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedap_core.arrays import FloatArray
from scripts.experiments.asynchronous.conditions import WAYS
from scripts.report import tables

SMOOTHED_RECORDS = 6
"""Delivered models swing from round to round, so a level counts as reached by the mean of this many records."""

TARGET_SHARE = 0.95
"""The level to reach: this share of the final accuracy of waiting for all, as in the definition of «converged»."""


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """Records of one run. times: (k,), increasing; accuracy: (k, clients); slow: index of the slow member."""

    times: FloatArray
    accuracy: FloatArray
    slow: int | None
    updates: int

    @property
    def mean(self) -> FloatArray:
        """(k,): unweighted mean over clients."""
        return np.asarray(self.accuracy.mean(axis=1), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One way under one condition for one algorithm: mean over seeds on a common grid, and the range of the seeds."""

    algorithm: str
    condition: str
    way: str
    times: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    ended_s: float
    slow_member: float | None
    updates: float

    @classmethod
    def of(cls, algorithm: str, condition: str, way: str, runs: Sequence[ObservedRun], step_s: float) -> Curve:
        """Average runs. They end at different times; the curve ends where the first one does, with its last models."""
        ended = min(float(run.times[-1]) for run in runs)
        times = np.append(np.arange(0.0, ended, step_s), ended)
        values = np.stack([_held(run.times, run.mean, times) for run in runs])
        slow = [float(run.accuracy[-1, run.slow]) for run in runs if run.slow is not None]
        return cls(
            algorithm=algorithm,
            condition=condition,
            way=way,
            times=times,
            mean=values.mean(axis=0),
            low=values.min(axis=0),
            high=values.max(axis=0),
            ended_s=float(np.mean([run.times[-1] for run in runs])),
            slow_member=float(np.mean(slow)) if slow else None,
            updates=float(np.mean([run.updates for run in runs])),
        )

    @property
    def smooth(self) -> FloatArray:
        """(k,): mean of the latest records."""
        sums = np.cumsum(np.concatenate([np.full(SMOOTHED_RECORDS - 1, self.mean[0]), self.mean]))
        sums[SMOOTHED_RECORDS:] -= sums[:-SMOOTHED_RECORDS].copy()
        return np.asarray(sums[SMOOTHED_RECORDS - 1 :] / SMOOTHED_RECORDS, dtype=np.float64)

    @property
    def last(self) -> float:
        """Final accuracy, averaged over the latest records."""
        return float(self.smooth[-1])

    def reached_s(self, level: float) -> float | None:
        """Return when the level was reached; None if it was not."""
        above = np.flatnonzero(self.smooth >= level)
        return float(self.times[above[0]]) if len(above) else None

    def at(self, time_s: float) -> float:
        """Return the smoothed accuracy at a time; after the end, the last value."""
        return float(self.smooth[max(int(np.searchsorted(self.times, time_s, side="right")) - 1, 0)])


def _held(times: FloatArray, values: FloatArray, grid: FloatArray) -> FloatArray:
    """Return the values at grid times; each value holds until the next."""
    places = np.maximum(np.searchsorted(times, grid + 1e-9, side="right") - 1, 0)
    return np.asarray(values[places], dtype=np.float64)


def target_of(curves: Sequence[Curve], algorithm: str) -> float:
    """Return the level at which times are compared, in whole per cent: close to where waiting for all ends."""
    waiting = [curve.last for curve in curves if curve.algorithm == algorithm and curve.way == "barrier"]
    return floor(100 * TARGET_SHARE * min(waiting)) / 100


def verdict(curves: Sequence[Curve], algorithm: str, title: str, target: float) -> str:
    """Summarise one condition and algorithm in a plain sentence."""
    ways = {curve.way: curve for curve in curves}
    times = ", ".join(f"{WAYS[way]}: {_duration(curve.reached_s(target))}" for way, curve in ways.items())
    sentence = f"{algorithm}, {title}: to reach {100 * target:.0f} %, {times}."
    if "continuous" in ways and "barrier" in ways:
        end = ways["continuous"].ended_s
        both = f"{100 * ways['continuous'].last:.1f} % against {100 * ways['barrier'].at(end):.1f} %"
        sentence += f" When continuous ends, after {end:.0f} s, it stands at {both} for waiting."
    return sentence


def _duration(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


_HEADS = ("algorithm", "condition", "way", "time to target, s", "ends after, s", "ends with %", "slow member %")


def _cells(curve: Curve, target: float) -> tuple[str, ...]:
    reached = curve.reached_s(target)
    return (
        "never" if reached is None else f"{reached:.0f} ({100 * target:.0f} %)",
        f"{curve.ended_s:.0f}",
        f"{100 * curve.last:.1f}",
        "–" if curve.slow_member is None else f"{100 * curve.slow_member:.1f}",
    )


def markdown(curves: Sequence[Curve], targets: Mapping[str, float], titles: Mapping[str, str]) -> str:
    """Return the study's table as Markdown."""
    body = [
        (curve.algorithm, titles[curve.condition], WAYS[curve.way], *_cells(curve, targets[curve.algorithm]))
        for curve in curves
    ]
    return tables.plain_table(_HEADS, body)


def terminal_table(curves: Sequence[Curve], targets: Mapping[str, float]) -> Table:
    """Return the same table for a terminal, with the names that the command takes."""
    shown = Table(box=SIMPLE_HEAD)
    for number, head in enumerate(("method", "case", "way", "target s", "end s", "last %", "slow %")):
        shown.add_column(head, justify="left" if number < 3 else "right", no_wrap=True)
    for curve in curves:
        named = (curve.algorithm, curve.condition, curve.way)
        reached, *others = _cells(curve, targets[curve.algorithm])
        shown.add_row(*named, reached.partition(" ")[0], *others)
    return shown


def csv_text(curves: Sequence[Curve]) -> str:
    """Return every point of every curve as csv, in per cent."""
    rows = [["algorithm", "condition", "way", "seconds", "mean", "lowest seed", "highest seed"]]
    for curve in curves:
        for time_s, *values in zip(curve.times, curve.mean, curve.low, curve.high, strict=True):
            shown = [f"{100 * value:.3f}" for value in values]
            rows.append([curve.algorithm, curve.condition, curve.way, f"{time_s:.3f}", *shown])
    return tables.csv_text(rows)
