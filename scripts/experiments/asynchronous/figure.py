"""The study as a picture: accuracy against time, a column per condition, a row per algorithm, a colour per way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from scripts.experiments.asynchronous.conditions import WAYS
from scripts.experiments.asynchronous.curves import Curve

_COLOURS = {"barrier": "#4a4a4a", "deadline": "#1f6fb2", "continuous": "#c1272d"}
_DPI = 150


def draw(
    curves: Sequence[Curve], targets: Mapping[str, float], titles: Mapping[str, str], path: Path, *, clock: str
) -> None:
    """PNG and SVG beside each other. clock: what kind of seconds these are."""
    mpl.rcParams["svg.hashsalt"] = "fedap"  # the same figure is the same file
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
    lines = [mpl.lines.Line2D([], [], color=_COLOURS[way], linewidth=2.2) for way in shown]
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
        axes.plot(curve.times[later], 100 * curve.mean[later], color=colour, linewidth=0.7, alpha=0.35)
        axes.plot(curve.times[later], 100 * curve.smooth[later], color=colour, linewidth=2.0)
        axes.plot(curve.times[-1], 100 * curve.last, "o", color=colour, markersize=4.5)
    for place, curve in enumerate(curves):
        reached = curve.reached_s(target)
        if reached is not None:
            axes.plot(reached, 100 * target, "|", color=_COLOURS[curve.way], markersize=13, markeredgewidth=1.6)
            axes.annotate(f"{reached:.0f} s", (reached, 100 * target), xytext=(0, -13 - 11 * place), fontsize=8,
                          textcoords="offset points", ha="center", color=_COLOURS[curve.way])  # fmt: skip
    axes.annotate(f"{100 * target:.0f} %", (0.012, 100 * target), xycoords=("axes fraction", "data"), xytext=(0, 3),
                  textcoords="offset points", fontsize=8, color="#777777")  # fmt: skip
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)
