"""Draws W as a heat map: who takes how much from whom, clients in a given order, self weights left blank.

Cells of one shade are one path, so that the file stays small even for a hundred clients; the page's script finds the
pair under the pointer from the figures in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import FloatArray
from protocol.host.web.svg import Svg, element, picture, short, words

SHADES = 12
_SIDE = 520.0
_LONGEST = 13
"""Most letters of a name that are shown."""


def shade(value: float, most: float) -> int:
    """Return 0..SHADES-1, linear from zero to the largest weight between two different clients."""
    return min(SHADES - 1, int(SHADES * value / most)) if most > 0 else 0


def heat_map(
    weights: FloatArray,
    names: Sequence[str],
    order: Sequence[int],
    *,
    described: str,
    source: str,
    side: float = _SIDE,
    blank_own: bool = True,
) -> Svg:
    """Draw the heat map; rows receive, columns give. source: where the page's script finds the figures; side: in
    pixels. blank_own: the diagonal is not drawn and does not count."""
    count = len(order)
    cell = side / max(count, 1)
    margin = 20.0 + 6.2 * min(_LONGEST, max(map(len, names), default=0))
    others = weights.copy()
    if blank_own:
        np.fill_diagonal(others, 0.0)
    most = float(others.max(initial=0.0))
    cells: dict[int, list[str]] = {}
    own = []
    for row, receiver in enumerate(order):
        for column, giver in enumerate(order):
            square = f"M{margin + column * cell:.1f} {margin + row * cell:.1f}h{cell:.1f}v{cell:.1f}h-{cell:.1f}z"
            if blank_own and receiver == giver:
                own.append(square)
            else:
                cells.setdefault(shade(float(others[receiver, giver]), most), []).append(square)
    drawn = [element("path", d="".join(squares), class_=f"h{level}") for level, squares in sorted(cells.items())]
    drawn.append(element("path", d="".join(own), class_="own"))
    drawn.extend(_labels([names[index] for index in order], cell, margin))
    drawn.append(element("rect", class_="cell-cursor", x=-999, y=0, width=cell, height=cell))
    return picture(
        *drawn,
        width=margin + side + 4,
        height=margin + side + 4,
        described=described,
        class_="heat",
        data_source=source,
        data_left=margin,
        data_top=margin,
        data_side=side,
    )


def _labels(names: Sequence[str], cell: float, margin: float) -> list[Svg]:
    every = max(1, int(np.ceil(9.0 / cell)))  # names need nine pixels each
    drawn = []
    for at, name in enumerate(names):
        if at % every:
            continue
        middle = (at + 0.5) * cell
        size = f"font-size:{min(11.0, max(7.0, 0.8 * cell * every)):.1f}px"
        shown = words(short(name, _LONGEST))
        drawn.append(
            element("text", shown, x=margin - 6, y=margin + middle + 3.5, class_="tick", text_anchor="end", style=size)
        )
        x, y = margin + middle + 3.5, margin - 6
        drawn.append(
            element("text", shown, x=x, y=y, class_="tick", style=size, transform=f"rotate(-90 {x:.1f} {y:.1f})")
        )
    return drawn
