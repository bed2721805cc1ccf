"""Figures of a comparison: accuracy per round, and W as a heat map. One look for all: colours belong to algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedap_core.arrays import FloatArray
from scripts.experiments.run_folder import Summary

COLOURS = {
    "fedap": "#c1272d",
    "d-fedap": "#e8743b",
    "f-fedap": "#e3a81f",
    "fedbn": "#1f6fb2",
    "fedavg": "#4a4a4a",
    "fedprox": "#9a9a9a",
    "fedper": "#2a9d6f",
    "base": "#7b4fa3",
}
_OTHER = "#17a2b8"
_DPI = 150


def convergence_figure(summaries: Sequence[Summary], title: str, path: Path) -> None:
    """Mean test accuracy of the delivered models against rounds, averaged over seeds; PNG and SVG beside each other."""
    figure = _figure(7.2, 4.2)
    axes = figure.add_subplot()
    names = list(dict.fromkeys(summary.algorithm for summary in summaries))
    ends = [_draw_curve(axes, [s for s in summaries if s.algorithm == name]) for name in names]
    low, high = axes.get_ylim()
    for (height, last), name in zip(_apart(ends, gap=0.045 * (high - low), top=high), names, strict=True):
        axes.annotate(name, (last, height), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8.5,
                      color=COLOURS.get(name, _OTHER))  # fmt: skip
    axes.set_xlabel("round")
    axes.set_ylabel("mean accuracy of the clients, %")
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    _save(figure, path)


def _draw_curve(axes: Axes, runs: Sequence[Summary]) -> tuple[float, float]:
    """One algorithm; returns where its curve ends, (height, round)."""
    common = {number for number, _ in runs[0].curve}.intersection(*({n for n, _ in run.curve} for run in runs))
    rounds = sorted(number + 1 for number in common)
    values = np.array([[100 * v for n, v in run.curve if n in common] for run in runs])
    mean = values.mean(axis=0)
    name = runs[0].algorithm
    axes.plot(rounds, mean, color=COLOURS.get(name, _OTHER), linewidth=2.2 if name == "fedap" else 1.3)
    if len(runs) > 1:
        axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=COLOURS.get(name, _OTHER), alpha=0.10,
                          linewidth=0)  # fmt: skip
    return float(mean[-1]), float(rounds[-1])


def _apart(ends: Sequence[tuple[float, float]], *, gap: float, top: float) -> list[tuple[float, float]]:
    """Label heights at least `gap` apart and none above `top`: pushed up from below, then down from the top."""
    order = sorted(range(len(ends)), key=lambda at: ends[at][0])
    heights = [end[0] for end in ends]
    for below, at in pairwise(order):
        heights[at] = max(heights[at], heights[below] + gap)
    heights[order[-1]] = min(heights[order[-1]], top)
    for above, at in pairwise(reversed(order)):
        heights[at] = min(heights[at], heights[above] - gap)
    return [(height, end[1]) for height, end in zip(heights, ends, strict=True)]


def mixing_figure(weights: FloatArray, members: Sequence[str], title: str, path: Path) -> None:
    """W with clients ordered by similarity; the diagonal, which is the same for all, is left grey."""
    order = by_similarity(weights)
    shown = weights[np.ix_(order, order)].copy()
    np.fill_diagonal(shown, np.nan)
    names = [members[index] for index in order]
    figure = _figure(5.6, 4.8)
    axes = figure.add_subplot()
    axes.set_facecolor("#d9d9d9")
    image = axes.imshow(shown, cmap="YlOrRd", vmin=0.0)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel("source")
    axes.set_ylabel("receiver")
    axes.set_title(title, fontsize=10, loc="left")
    figure.colorbar(image, ax=axes, label="weight", shrink=0.85)
    _save(figure, path)


def by_similarity(weights: FloatArray) -> list[int]:
    """An order in which similar clients stand together: from the closest pair on, always the nearest one left."""
    count = len(weights)
    if count < 3:
        return list(range(count))
    close = weights + weights.T
    np.fill_diagonal(close, -1.0)
    first, second = np.unravel_index(int(close.argmax()), close.shape)
    order = [int(first), int(second)]
    while len(order) < count:
        left = [index for index in range(count) if index not in order]
        order.append(max(left, key=lambda index: float(close[order[-1], index])))
    return order


def _figure(width: float, height: float) -> Figure:
    mpl.rcParams["svg.hashsalt"] = "fedap"  # the same figure is the same file
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=_DPI, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
