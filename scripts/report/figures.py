"""Defines the style of all figures, and draws the two of a comparison: accuracy per round, and W as a heat map.

Colours come from `algorithms`; sizes, grid and file formats are decided only here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedap_core.arrays import FloatArray
from scripts.report.algorithms import colour, spelled
from scripts.report.similarity import by_similarity, cluster_names
from scripts.run.mixing_record import AnyMixing
from scripts.run.results import Summary

_DPI = 150
GRID = "#dddddd"
INK = "#333333"
"""Colour of text and thin lines that belong to no algorithm."""


def convergence_figure(summaries: Sequence[Summary], title: str, path: Path) -> None:
    """Draw mean test accuracy against rounds, averaged over seeds, as PNG and SVG."""
    figure, axes = titled_axes(7.2, 4.2, title)
    draw_curves(axes, summaries, name_of=spelled)
    save_figure(figure, path)


def draw_curves(
    axes: Axes,
    summaries: Sequence[Summary],
    *,
    colour_of: Callable[[str], str] = colour,
    name_of: Callable[[str], str] = str,
) -> None:
    """Draw one curve per algorithm: the mean over its seeds, a band from lowest to highest, its name at the end."""
    names = list(dict.fromkeys(summary.algorithm for summary in summaries))
    ends = [_draw_curve(axes, [s for s in summaries if s.algorithm == name], colour_of(name)) for name in names]
    low, high = axes.get_ylim()
    for (height, last), name in zip(_spread_out(ends, gap=0.045 * (high - low), top=high), names, strict=True):
        axes.annotate(name_of(name), (last, height), xytext=(6, 0), textcoords="offset points", va="center",
                      fontsize=8.5, color=colour_of(name))  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel("mean accuracy of the clients, %")
    tidy(axes)
    axes.margins(x=0.01)


def _draw_curve(axes: Axes, runs: Sequence[Summary], shade: str) -> tuple[float, float]:
    """Draw one algorithm and return where its curve ends, (height, round)."""
    common = {number for number, _ in runs[0].curve}.intersection(*({n for n, _ in run.curve} for run in runs))
    rounds = sorted(number + 1 for number in common)
    values = np.array([[100 * v for n, v in run.curve if n in common] for run in runs])
    mean = values.mean(axis=0)
    leads = runs[0].algorithm.lower() == "fedap"
    axes.plot(rounds, mean, color=shade, linewidth=2.2 if leads else 1.3, zorder=3 if leads else 2)
    if len(runs) > 1:
        axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=shade, alpha=0.10, linewidth=0)
    return float(mean[-1]), float(rounds[-1])


def _spread_out(ends: Sequence[tuple[float, float]], *, gap: float, top: float) -> list[tuple[float, float]]:
    """Move label heights at least `gap` apart and none above `top`: up from the lowest, then down from the top."""
    order = sorted(range(len(ends)), key=lambda at: ends[at][0])
    heights = [end[0] for end in ends]
    for below, at in pairwise(order):
        heights[at] = max(heights[at], heights[below] + gap)
    heights[order[-1]] = min(heights[order[-1]], top)
    for above, at in pairwise(reversed(order)):
        heights[at] = min(heights[at], heights[above] - gap)
    return [(height, end[1]) for height, end in zip(heights, ends, strict=True)]


def mixing_figure(mixing: AnyMixing, members: Sequence[str], title: str, path: Path) -> None:
    """Draw W as PNG and SVG; with many clients, W between their clusters."""
    if mixing.clusters:
        names = cluster_names(mixing.clusters)
        figure = draw_mixing(mixing.between_clusters(), names, f"{title}, clusters of clients", blank_own=False)
    else:
        figure = draw_mixing(np.array([mixing.row(one) for one in range(len(mixing))]), members, title)
    save_figure(figure, path)


def draw_mixing(weights: FloatArray, members: Sequence[str], title: str, *, blank_own: bool = True) -> Figure:
    """Draw W with clients ordered by similarity. blank_own: leave the diagonal, which is the same for all, grey."""
    order = by_similarity(weights)
    shown = weights[np.ix_(order, order)].copy()
    if blank_own:
        np.fill_diagonal(shown, np.nan)
    names = [members[index] for index in order]
    figure, axes = titled_axes(5.6, 4.8, title)
    axes.set_facecolor("#d9d9d9")
    image = axes.imshow(shown, cmap="YlOrRd", vmin=0.0)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel("source")
    axes.set_ylabel("receiver")
    figure.colorbar(image, ax=axes, label="weight", shrink=0.85)
    return figure


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure; sizes in inches. title: above all its panels."""
    mpl.rcParams["svg.hashsalt"] = "fedap"  # equal figures give equal files
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def titled_axes(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """Return a figure of one panel, and the panel."""
    figure = new_figure(width, height)
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10, loc="left")
    return figure, axes


def tidy(axes: Axes, *, grid: Literal["x", "y", "both"] = "y") -> None:
    """Draw grid lines behind the data and remove the frame at the right and the top."""
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, path: Path) -> None:
    """Save PNG and SVG side by side; the same figure gives the same bytes."""
    figure.savefig(path.with_name(f"{path.name}.png"), dpi=_DPI, metadata={"Software": None})
    figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})
