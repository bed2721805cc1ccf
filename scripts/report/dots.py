"""Draws dots on given axes: how many samples of each class a client has, and one statistic against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedap_core.errors import InvalidInput
from scripts.report.figures import INK, tidy

_LARGEST_PT2 = 130.0
"""Area of the dot of the largest count."""
_WIDE = 20.0


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
