"""Draws what a privacy budget costs: W's correlation with the exact one, and accuracy, against epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scripts.report.figures import INK, new_figure, save_figure, tidy

_W, _ACCURACY = "#1f6f8b", "#b4501e"


def budget_figure(
    by_epsilon: Mapping[float, Mapping[str, float]],
    exact: Mapping[str, float],
    averaged: Mapping[str, float],
    path: Path,
) -> None:
    """Draw the figure. by_epsilon, exact: `correlation` and `accuracy` (a share) of each. averaged: by unit, without
    noise or clipping; only its correlation is drawn."""
    budgets = sorted(by_epsilon)
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    left.plot(budgets, [by_epsilon[one]["correlation"] for one in budgets], marker="o", color=_W)
    left.axhline(averaged["correlation"], color=INK, linewidth=1.0, linestyle="--", label="averaged by unit, no noise")
    left.legend(fontsize=8, frameon=False, loc="lower right")
    left.set_ylabel("correlation of W with the exact W")
    left.set_ylim(min(0.0, *(by_epsilon[one]["correlation"] for one in budgets)) - 0.05, 1.05)
    right.plot(budgets, [100 * by_epsilon[one]["accuracy"] for one in budgets], marker="o", color=_ACCURACY)
    right.axhline(100 * exact["accuracy"], color=INK, linewidth=1.0, linestyle="--", label="exact statistics")
    right.set_ylabel("mean accuracy, %")
    right.legend(fontsize=8, frameon=False)
    right.margins(y=0.6)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(budgets, [f"{one:g}" for one in budgets])
        axes.minorticks_off()
        axes.set_xlabel("ε of one release")
        tidy(axes)
    save_figure(figure, path)
