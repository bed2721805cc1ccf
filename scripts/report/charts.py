"""Draws charts on given axes: bars, lines over a parameter, clients side by side, strips of clients, dots.

Accuracies are in per cent. The caller decides what is drawn and in which order; `figures` decides how it looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedap_core.errors import InvalidInput
from scripts.report.figures import INK, tidy

_GROUP_WIDTH = 0.8
_SMALL = 8.0
_LARGEST_PT2 = 130.0
"""Area of the dot of the largest count."""
_WIDE = 20.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """One algorithm's values, one per group or position; deviations, if any, are drawn as error bars."""

    name: str
    colour: str
    values: tuple[float, ...]
    deviations: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values):
            raise InvalidInput(f"series {self.name}", self.values, "at least one value, all finite")
        if self.deviations and len(self.deviations) != len(self.values):
            raise InvalidInput(f"series {self.name}", f"{len(self.deviations)} deviations", "one for each value")

    @property
    def errors(self) -> list[float] | None:
        """Lengths of the error bars, or None if no value has one."""
        if all(deviation is None for deviation in self.deviations):
            return None
        return [deviation or 0.0 for deviation in self.deviations]


def draw_bars(axes: Axes, groups: Sequence[str], series: Sequence[Series], *, labelled: bool = True) -> None:
    """Draw one bar per series in each group; the axis starts at a round number below the lowest bar."""
    width = _GROUP_WIDTH / len(series)
    centres = np.arange(len(groups))
    for number, one in enumerate(series):
        at = centres + (number - (len(series) - 1) / 2) * width
        axes.bar(at, one.values, 0.92 * width, color=one.colour, label=one.name, yerr=one.errors, ecolor=INK, capsize=2,
                 error_kw={"linewidth": 0.8})  # fmt: skip
        if labelled:
            for x, value, error in zip(at, one.values, one.errors or [0.0] * len(one.values), strict=True):
                axes.annotate(f"{value:.1f}", (x, value + error), xytext=(0, 2), textcoords="offset points",
                              ha="center", fontsize=_SMALL - 0.5, color=INK)  # fmt: skip
    axes.set_xticks(centres, groups)
    axes.set_ylim(*_limits(series))
    axes.set_ylabel("mean accuracy, %")
    tidy(axes)


def draw_lines(axes: Axes, positions: Sequence[str], series: Sequence[Series]) -> None:
    """Draw values over a parameter whose settings are equally spaced and named by `positions`."""
    at = np.arange(len(positions))
    for one in series:
        axes.errorbar(at, one.values, yerr=one.errors, color=one.colour, marker="o", markersize=5, linewidth=1.8,
                      capsize=3, elinewidth=0.8, label=one.name)  # fmt: skip
    axes.set_xticks(at, positions)
    axes.set_ylim(*_limits(series))
    axes.set_ylabel("mean accuracy, %")
    axes.margins(x=0.08)
    tidy(axes)


def draw_clients(axes: Axes, series: Sequence[Series]) -> None:
    """Draw every client's accuracy; lines join the points of an algorithm only to guide the eye, they show no trend."""
    count = max(len(one.values) for one in series)
    for one, marker in zip(series, "osD^v", strict=False):
        axes.plot(range(1, len(one.values) + 1), one.values, color=one.colour, marker=marker, markersize=4.5,
                  linewidth=1.1, label=one.name)  # fmt: skip
    axes.set_xticks([number for number in range(1, count + 1) if count <= 12 or number == 1 or number % 5 == 0])
    axes.set_xlabel("client")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(*_limits(series))
    axes.margins(x=0.03)
    tidy(axes)


@dataclass(frozen=True, kw_only=True)
class Strip:
    """One algorithm: every client's accuracy, their mean over all seeds, and the paper's mean if it gives one."""

    name: str
    colour: str
    clients: tuple[float, ...]
    mean: float
    paper: float | None = None


def draw_strips(axes: Axes, strips: Sequence[Strip]) -> None:
    """Draw a row per algorithm: a dot per client, a bar at the mean, an open diamond at the paper's mean."""
    for row, strip in enumerate(strips):
        spread = 0.22 * np.sin(2.4 * np.arange(len(strip.clients)))  # spread, but the same picture every time
        axes.scatter(strip.clients, row + spread, s=20, color=strip.colour, alpha=0.45, linewidths=0)
        axes.vlines(strip.mean, row - 0.34, row + 0.34, color=strip.colour, linewidth=3.0)
        axes.annotate(f"{strip.mean:.1f}", (strip.mean, row - 0.34), xytext=(0, 3), textcoords="offset points",
                      ha="center", fontsize=_SMALL, color=strip.colour)  # fmt: skip
        if strip.paper is not None:
            axes.scatter([strip.paper], [row], marker="D", s=46, facecolors="white", edgecolors=INK, linewidths=1.3,
                         zorder=3)  # fmt: skip
    axes.set_yticks(range(len(strips)), [strip.name for strip in strips])
    axes.set_ylim(len(strips) - 0.4, -0.75)
    axes.set_xlabel("accuracy, %")
    axes.tick_params(axis="y", length=0)
    tidy(axes, grid="x")


def draw_counts(axes: Axes, counts: Sequence[Sequence[int]]) -> None:
    """Draw counts (clients, classes): clients along the x axis, classes along y, a dot's area is the sample count."""
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.max() <= 0:
        raise InvalidInput("class counts", f"shape {table.shape}", "(clients, classes) with at least one sample")
    client, label = np.nonzero(table)
    area = _LARGEST_PT2 * table[client, label] / table.max()
    axes.scatter(client + 1, label, s=area, color="#c1272d", alpha=0.75, linewidths=0)
    clients, classes = table.shape
    axes.set_xticks([number for number in range(1, clients + 1) if clients <= 12 or number == 1 or number % 5 == 0])
    axes.set_yticks(range(0, classes, 1 if classes <= 12 else 2))
    axes.set_xlim(0.2, clients + 0.8)
    axes.set_ylim(-0.7, classes - 0.3)
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    tidy(axes, grid="both")


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """Points of one BN layer: x is measured on the inputs, y is the layer's running statistic."""

    name: str
    colour: str
    x: tuple[float, ...]
    y: tuple[float, ...]


def draw_clouds(axes: Axes, clouds: Sequence[Cloud]) -> None:
    """Draw points around the line y = x; positive values that span a wide range get logarithmic axes."""
    for cloud, marker in zip(clouds, "osD^vP*", strict=False):
        axes.scatter(
            cloud.x, cloud.y, s=30, color=cloud.colour, marker=marker, alpha=0.8, linewidths=0, label=cloud.name
        )
    values = [value for cloud in clouds for value in (*cloud.x, *cloud.y)]
    if min(values) > 0.0 and max(values) > _WIDE * min(values):
        axes.set_xscale("log")
        axes.set_yscale("log")
    ends = [min(values), max(values)]
    axes.plot(ends, ends, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    axes.set_aspect("equal", adjustable="datalim")
    tidy(axes, grid="both")


def below(axes: Axes, *, columns: int) -> None:
    """Place the legend under the axes, in one or more rows."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, fontsize=_SMALL, frameon=False)


def within(axes: Axes) -> None:
    """Place the legend where it hides least."""
    axes.legend(loc="best", fontsize=_SMALL, frameon=True, framealpha=0.85, edgecolor="none")


def _limits(series: Sequence[Series]) -> tuple[float, float]:
    """Return the axis limits: from a round number below everything drawn to a little above it, within 0 and 105."""
    low = min(v - e for one in series for v, e in zip(one.values, one.errors or [0.0] * len(one.values), strict=True))
    high = max(v + e for one in series for v, e in zip(one.values, one.errors or [0.0] * len(one.values), strict=True))
    floor = max(0.0, 10.0 * math.floor((low - 0.25 * (high - low) - 1.0) / 10.0))
    return floor, min(105.0, high + 0.12 * (high - floor))
