"""Draws the figures of «How FedAP works» as SVG: `python docs/figures.py` writes them into docs/assets.

Each has its own light background, so that it reads the same on light and dark pages. The numbers of W are computed by
the project's own code from the statistics that are drawn. Knows nothing of the site.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fedap_core.mixing import mixing_from_distances

ASSETS = Path(__file__).parent / "assets"
INK, SOFT, LINE = "#22313a", "#5b6b75", "#9aa8b0"
COLOURS = {"north": "#00796b", "south": "#c2571a", "east": "#5e4fa2"}
STATISTICS = {"north": (0.0, 1.0), "south": (0.6, 1.2), "east": (3.0, 0.8)}
"""(mean, standard deviation) of one channel of one layer's inputs at each hospital."""


def text(
    x: float, y: float, words: str, *, size: int = 15, fill: str = INK, anchor: str = "middle", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>{words}</text>'


def box(x: float, y: float, width: float, height: float, *, fill: str = "#ffffff", stroke: str = LINE) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{stroke}"'
        ' stroke-width="1.5"/>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float, *, stroke: str = SOFT) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{stroke}" stroke-width="2"'
        ' marker-end="url(#head)"/>'
    )


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"'
        ' font-family="system-ui, sans-serif">'
    )
    tip = f'<path d="M0 0L8 4L0 8z" fill="{SOFT}"/>'
    marker = (
        f'<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">{tip}'
    )
    return "\n".join(
        [
            head,
            f"<title>{title}</title>",
            f"<defs>{marker}</marker></defs>",
            f'<rect width="{width}" height="{height}" rx="12" fill="#f6f8f9"/>',
            *parts,
            "</svg>\n",
        ]
    )


def what_leaves() -> str:
    """One hospital: what stays, what is exchanged."""
    rows = [("samples and labels", "#dfe7ea"), ("batch-norm layers", "#dfe7ea"), ("other weights", "#cfe9e4")]
    parts = [box(30, 30, 330, 260), text(195, 60, "Hospital North", bold=True, size=17)]
    for number, (words, fill) in enumerate(rows):
        parts += [box(60, 82 + 62 * number, 270, 46, fill=fill), text(195, 111 + 62 * number, words)]
    parts += [
        text(195, 281, "grey stays, green is exchanged", size=13, fill=SOFT),
        box(640, 90, 210, 140),
        text(745, 130, "Coordinator", bold=True, size=17),
        text(745, 160, "derives W once,", size=14, fill=SOFT),
        text(745, 180, "mixes weights each round,", size=14, fill=SOFT),
        text(745, 200, "never sees data", size=14, fill=SOFT),
        arrow(372, 120, 628, 120),
        text(500, 108, "once: means and variances", size=14),
        arrow(372, 166, 628, 166),
        text(500, 154, "each round: its weights", size=14),
        arrow(628, 212, 372, 212),
        text(500, 234, "each round: its own mixture", size=14),
    ]
    return picture(880, 310, "What stays in a hospital and what is exchanged with the coordinator", parts)


def _curve(name: str, left: float, base: float) -> str:
    mean, deviation = STATISTICS[name]
    points = []
    for step in range(121):
        value = -4.0 + step * 10.0 / 120
        height = math.exp(-(((value - mean) / deviation) ** 2) / 2) / deviation
        points.append(f"{left + step * 2.6:.1f},{base - 110 * height:.1f}")
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>'


def weights() -> np.ndarray:
    """W of the three hospitals, by the distances of their statistics (Wasserstein, one channel)."""
    pairs = list(STATISTICS.values())
    distances = np.array([[math.hypot(a[0] - b[0], a[1] - b[1]) for b in pairs] for a in pairs])
    return mixing_from_distances(distances, self_weight=0.5)


def who_learns_from_whom() -> str:
    """Statistics on the left, W on the right."""
    mixing = weights()
    parts = [text(190, 40, "Inputs of a batch-norm layer", bold=True), _axis(30, 220)]
    for number, name in enumerate(STATISTICS):
        parts.append(_curve(name, 34, 220))
        mean, deviation = STATISTICS[name]
        words = f"{name.title()}: mean {mean:g}, deviation {deviation:g}"
        parts.append(text(50, 252 + 22 * number, words, size=14, fill=COLOURS[name], anchor="start"))
    parts += [arrow(375, 150, 465, 150), text(420, 136, "distances", size=13, fill=SOFT)]
    parts.append(text(690, 40, "W: what each hospital receives", bold=True))
    for row, receiver in enumerate(STATISTICS):
        parts.append(text(570, 112 + 62 * row, receiver.title(), fill=COLOURS[receiver], anchor="end"))
        parts.append(text(625 + 90 * row, 72, f"from {receiver.title()}", size=13, fill=COLOURS[receiver]))
        for column in range(len(STATISTICS)):
            weight = float(mixing[row, column])
            shade = f"rgba(0,121,107,{weight:.3f})"
            parts.append(box(582 + 90 * column, 82 + 62 * row, 86, 56, fill=shade))
            ink = "#ffffff" if weight > 0.6 else INK
            parts.append(text(625 + 90 * column, 116 + 62 * row, f"{weight:.2f}", size=16, fill=ink))
    parts.append(text(716, 296, "half from itself (λ = 0.5), the rest by similarity", size=13, fill=SOFT))
    return picture(880, 320, "How statistics of three hospitals become the mixing matrix W", parts)


def _axis(x: float, y: float) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{x + 325}" y2="{y}" stroke="{LINE}" stroke-width="1.5"/>'


def rounds() -> str:
    """The order of a run."""
    steps = [
        ("1 Measure", "means and variances", "under the anchor"),
        ("2 Weigh", "distances become W,", "once"),
        ("3 Train", "one epoch at home,", "own batch norm"),
        ("4 Mix", "a row of W times", "everybody's weights"),
        ("5 Deliver", "shared weights only;", "batch norm stays"),
    ]
    parts = []
    for number, (name, first, second) in enumerate(steps):
        x = 24 + 171 * number
        at_home = number in (0, 2, 4)
        parts += [
            box(x, 40, 148, 104, fill="#cfe9e4" if at_home else "#e4e0f1"),
            text(x + 74, 70, name, bold=True, size=16),
            text(x + 74, 98, first, size=13),
            text(x + 74, 118, second, size=13),
        ]
        if number:
            parts.append(arrow(x - 22, 92, x - 2, 92))
    parts += [
        f'<path d="M782 150v34H440v-30" fill="none" stroke="{SOFT}" stroke-width="2" marker-end="url(#head)"/>',
        text(611, 204, "next round", size=14, fill=SOFT),
        text(98, 180, "green: at each hospital", size=13, fill="#00695c"),
        text(98, 202, "violet: at the coordinator", size=13, fill="#5e4fa2"),
    ]
    return picture(880, 222, "The steps of a FedAP run", parts)


FIGURES = {"what-leaves.svg": what_leaves, "who-learns.svg": who_learns_from_whom, "rounds.svg": rounds}

if __name__ == "__main__":
    for file, draw in FIGURES.items():
        (ASSETS / file).write_text(draw(), encoding="utf-8")
