"""Draws amounts as bars: samples per class of one client, time and bytes per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.host.web.svg import NARROW_WIDTH, AxisScale, Svg, by_width, element, label, picture, room, short, words

_GAP = 8.0
"""Pixels between a bar and the text beside it."""
_LONGEST, _LONGEST_NARROW = 26, 14
"""Letters of a name that are shown; the full name appears on hover."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a bar. class_: CSS class that colours it."""

    amount: float
    class_: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row: its name, its parts from left to right, the text at its end."""

    name: str
    pieces: tuple[Piece, ...]
    value: str
    strong: bool = False

    @property
    def total(self) -> float:
        return sum(piece.amount for piece in self.pieces)


def bars(rows: Sequence[Bar], *, described: str, step: float = 23.0) -> Svg:
    """Draw horizontal bars on one scale from zero, in a wide and a narrow version."""
    wide = _bars(rows, described=described, width=560.0, step=step, longest=_LONGEST)
    return by_width(wide, _bars(rows, described=described, width=NARROW_WIDTH, step=step, longest=_LONGEST_NARROW))


def _bars(rows: Sequence[Bar], *, described: str, width: float, step: float, longest: int) -> Svg:
    names = [short(row.name, longest) for row in rows]
    left = max(104.0 if longest == _LONGEST else 0.0, 2 * _GAP + room(names, strong=any(row.strong for row in rows)))
    right = max(74.0 if longest == _LONGEST else 0.0, 2 * _GAP + room([row.value for row in rows], strong=True))
    top = 4.0
    most = max((row.total for row in rows), default=0.0) or 1.0
    x = AxisScale(low=0.0, high=most, start=left, stop=width - right)
    drawn: list[Svg] = []
    for number, row in enumerate(rows):
        y = top + number * step
        kind = " strong" if row.strong else ""
        name = label(
            names[number],
            x=left - _GAP,
            y=y + 0.5 * step + 4,
            class_=f"row-name{kind}",
            anchor="end",
            title=row.name,
        )
        drawn.append(name)
        at = 0.0
        for piece in row.pieces:
            start, stop = x(at), x(at + piece.amount)
            title = element("title", words(piece.title))
            drawn.append(
                element(
                    "rect", title, x=start, y=y + 4, width=max(stop - start, 0.0), height=step - 8, class_=piece.class_
                )
            )
            at += piece.amount
        drawn.append(label(row.value, x=x(at) + _GAP, y=y + 0.5 * step + 4, class_=f"value{kind}"))
    return picture(*drawn, width=width, height=top + step * len(rows) + 4, described=described, class_="bars")
