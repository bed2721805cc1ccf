"""Draws the study: accuracy against time, a column per condition, a row per algorithm, a colour per way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from scripts.experiments.asynchronous.conditions import WAYS
from scripts.experiments.asynchronous.curves import Curve

_COLOURS = {"barrier": "#4a4a4a", "deadline": "#1f6fb2", "continuous": "#c1272d"}
_DPI = 150


def draw(
    curves: Sequence[Curve], targets: Mapping[str, float], titles: Mapping[str, str], path: Path, *, clock: str
) -> None:
    """Save the figure as PNG and SVG. clock: the kind of seconds, virtual or real."""
    mpl.rcParams["svg.hashsalt"] = "fedap"  # equal figures give equal files
    algorithms = list(dict.fromkeys(curve.algorithm for curve in curves))
    conditions = list(dict.fromkeys(curve.condition for curve in curves))
    size = (3.9 * len(conditions) + 0.6, 2.9 * len(algorithms) + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(algorithms), len(conditions), squeeze=False, sharey="row")
    for row, algorithm in enumerate(algorithms):
        for column, condition in enumerate(conditions):
            axes = grid[row, column]
            chosen = [c for c in curves if (c.algorithm, c.condition) == (algorithm, condition)]
            _panel(axes, chosen, targets[algorithm])
            if row == 0:
                axes.set_title(titles[condition], fontsize=10.5, loc="left")
            if row == len(algorithms) - 1:
                axes.set_xlabel(f"{clock} seconds, logarithmic", fontsize=9)
        grid[row, 0].set_ylabel(f"{algorithm}\nmean accuracy, %", fontsize=9.5)
    shown = [way for way in WAYS if any(curve.way == way for curve in curves)]
    lines = [Line2D([], [], color=_COLOURS[way], linewidth=2.2) for way in shown]
    figure.legend(
        lines, [WAYS[way] for way in shown], loc="outside lower center", ncols=len(shown), frameon=False, fontsize=9.5
    )
    figure.savefig(path.with_suffix(".png"), dpi=_DPI, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def _panel(axes: Axes, curves: Sequence[Curve], target: float) -> None:
    axes.set_xscale("log")
    axes.axhline(100 * target, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    for curve in curves:
        colour, later = _COLOURS[curve.way], curve.times > 0.0
        axes.step(curve.times[later], 100 * curve.mean[later], color=colour, linewidth=0.7, alpha=0.4, where="post")
        axes.plot(curve.times[later], 100 * curve.smooth[later], color=colour, linewidth=2.0)
        axes.plot(curve.times[-1], 100 * curve.last, "o", color=colour, markersize=4.5)
    _write_times(axes, curves, target)
    axes.set_xlim(left=_first_change(curves))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)


def _write_times(axes: Axes, curves: Sequence[Curve], target: float) -> None:
    """Write when each way reached the level, in the corner where curves have not risen yet."""
    lines = [(f"time to {100 * target:.0f} %", "#777777")]
    for curve in curves:
        reached = curve.reached_s(target)
        shown = "not reached" if reached is None else f"{reached:.0f} s"
        lines.append((shown, _COLOURS[curve.way]))
        if reached is not None:
            axes.plot(reached, 100 * target, "|", color=_COLOURS[curve.way], markersize=12, markeredgewidth=1.6)
    for place, (text, colour) in enumerate(lines):
        axes.annotate(text, (0.035, 0.755 - 0.085 * place), xycoords="axes fraction", fontsize=8.5, color=colour,
                      fontweight="normal" if place == 0 else "bold")  # fmt: skip


def _first_change(curves: Sequence[Curve]) -> float:
    """Return a time just before the first client gets a model: earlier there is nothing to see."""
    changed = [curve.times[np.flatnonzero(curve.mean != curve.mean[0])[:1]] for curve in curves]
    first = min((float(times[0]) for times in changed if len(times)), default=1.0)
    return max(first / 2, 1e-3)
