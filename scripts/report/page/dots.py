"""Draws values as dots: every client under every algorithm, intervals of one client, classes of every client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.host.web.svg import (
    NARROW_WIDTH,
    AxisScale,
    Svg,
    by_width,
    element,
    label,
    picture,
    room,
    short,
    ticks,
    words,
)
from scripts.report.page.wording import percent

_GAP = 10.0
"""Pixels between a name and the scale."""
_LONGEST, _LONGEST_NARROW = 22, 11
"""Letters of a name that are shown; the full name appears on hover."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One algorithm's value for one client. role: alone, personal or other."""

    name: str
    colour: int
    value: float
    role: str = "other"
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class DotRow:
    """One client. anchor: target of the link on its name."""

    name: str
    anchor: str
    dots: tuple[Dot, ...]


def client_dots(rows: Sequence[DotRow], *, described: str) -> Svg:
    """Draw a row per client, with a bar from its accuracy alone to that with the personalised model, in a wide and a
    narrow version."""
    wide = _client_dots(rows, described=described, width=940.0, longest=_LONGEST)
    return by_width(wide, _client_dots(rows, described=described, width=NARROW_WIDTH, longest=_LONGEST_NARROW))


def _client_dots(rows: Sequence[DotRow], *, described: str, width: float, longest: int) -> Svg:
    right, top, step = 20.0, 26.0, 24.0 if len(rows) <= 40 else 16.0
    left = _left([row.name for row in rows], longest=longest)
    height = top + step * len(rows) + 30
    values = [dot.value for row in rows for dot in row.dots]
    x = AxisScale(low=math.floor(20 * min(values)) / 20, high=1.0, start=left, stop=width - right)
    drawn = _scale_lines(x, top=top - 8, bottom=height - 26, axis="test accuracy, %")
    for number, row in enumerate(rows):
        y = top + (number + 0.5) * step
        drawn.append(_link(row, x=left - _GAP, y=y + 4, longest=longest))
        drawn.append(element("line", class_="row", x1=left, x2=width - right, y1=y, y2=y))
        drawn.extend(_change(row, x, y))
        drawn.extend(_dot(dot, x(dot.value), y, row.name) for dot in sorted(row.dots, key=_front))
    return picture(*drawn, width=width, height=height, described=described, class_="dots")


def _left(names: Sequence[str], *, least: float = 116.0, strong: bool = False, longest: int = _LONGEST) -> float:
    """Return where the scale begins: beside the longest name."""
    needed = 2 * _GAP + room([short(name, longest) for name in names], strong=strong)
    return needed if longest < _LONGEST else max(least, needed)


def _front(dot: Dot) -> int:
    return ("other", "alone", "personal").index(dot.role)


def _link(row: DotRow, *, x: float, y: float, longest: int) -> Svg:
    text = label(short(row.name, longest), x=x, y=y, class_="row-name", anchor="end", title=row.name)
    return element("a", text, href=f"#{row.anchor}")


def _change(row: DotRow, x: AxisScale, y: float) -> list[Svg]:
    by_role = {dot.role: dot.value for dot in row.dots}
    if not {"alone", "personal"} <= by_role.keys():
        return []
    way = "up" if by_role["personal"] >= by_role["alone"] else "down"
    return [element("line", class_=f"change {way}", x1=x(by_role["alone"]), x2=x(by_role["personal"]), y1=y, y2=y)]


def _dot(dot: Dot, x: float, y: float, client: str) -> Svg:
    radius = 5.5 if dot.role == "personal" else 4.5 if dot.role == "alone" else 3.5
    title = element("title", words(f"{client}: {dot.name} {percent(dot.value)}"))
    return element("circle", title, cx=x, cy=y, r=radius, class_=f"dot c{dot.colour} {dot.role}", data_name=dot.name)


def _scale_lines(x: AxisScale, *, top: float, bottom: float, axis: str) -> list[Svg]:
    drawn = []
    for value in ticks(100 * x.low, 100 * x.high, 8 if x.stop - x.start > NARROW_WIDTH else 4):
        at = x(value / 100)
        drawn.append(element("line", class_="grid", x1=at, x2=at, y1=top, y2=bottom))
        drawn.append(label(f"{value:g}", x=at, y=bottom + 15, class_="tick", anchor="middle"))
    drawn.append(label(axis, x=x.start, y=top - 5, class_="axis"))
    return drawn


def intervals(dots: Sequence[Dot], *, described: str) -> Svg:
    """Draw one client's algorithms in rows, each with its 95 % interval, in a wide and a narrow version."""
    wide = _intervals(dots, described=described, width=560.0, longest=_LONGEST)
    return by_width(wide, _intervals(dots, described=described, width=NARROW_WIDTH, longest=_LONGEST_NARROW))


def _intervals(dots: Sequence[Dot], *, described: str, width: float, longest: int) -> Svg:
    right, top, step = 62.0, 22.0, 25.0
    left = _left([dot.name for dot in dots], least=92.0, strong=True, longest=longest)
    height = top + step * len(dots) + 26
    ends = [end for dot in dots for end in (dot.interval or (dot.value, dot.value))]
    x = AxisScale(
        low=max(0.0, math.floor(20 * min(ends)) / 20),
        high=min(1.0, math.ceil(20 * max(ends)) / 20),
        start=left,
        stop=width - right,
    )
    drawn = _scale_lines(x, top=top - 4, bottom=height - 22, axis="test accuracy, %")
    for number, dot in enumerate(dots):
        y = top + (number + 0.5) * step
        kind = " strong" if dot.role == "personal" else ""
        name = short(dot.name, longest)
        drawn.append(label(name, x=left - _GAP, y=y + 4, class_=f"row-name{kind}", anchor="end", title=dot.name))
        if dot.interval is not None:
            low, high = (x(end) for end in dot.interval)
            drawn.append(element("line", class_=f"interval c{dot.colour}", x1=low, x2=high, y1=y, y2=y))
        drawn.append(_dot(dot, x(dot.value), y, "here"))
        drawn.append(label(percent(dot.value), x=width - right + 8, y=y + 4, class_=f"value{kind}"))
    return picture(*drawn, width=width, height=height, described=described, class_="intervals")


def class_dots(
    counts: Sequence[Sequence[int]], clients: Sequence[str], classes: Sequence[str], *, described: str
) -> Svg:
    """Draw clients by classes; the area of a dot is the number of samples."""
    left, longest = _left(clients), 940.0
    top = 24.0 + 4.6 * min(18, max(map(len, classes), default=0))
    step_x = min(74.0, (longest - left - 20) / max(len(classes), 1))
    step_y = 22.0 if len(clients) <= 40 else 14.0
    most = max((count for row in counts for count in row), default=1) or 1
    largest = min(step_x, step_y) * 0.52
    drawn: list[Svg] = []
    for column, name in enumerate(classes):
        x = left + (column + 0.5) * step_x
        turn = f"rotate(-40 {x:.1f} {top - 10:.1f})"
        title = element("title", words(name))
        drawn.append(element("text", title, words(short(name, 18)), x=x, y=top - 10, class_="tick", transform=turn))
    for row, (client, numbers) in enumerate(zip(clients, counts, strict=True)):
        y = top + (row + 0.5) * step_y
        drawn.append(
            label(short(client, _LONGEST), x=left - _GAP, y=y + 4, class_="row-name", anchor="end", title=client)
        )
        drawn.append(element("line", class_="row", x1=left, x2=left + step_x * len(classes), y1=y, y2=y))
        for column, number in enumerate(numbers):
            if number:
                title = element("title", words(f"{client}: {number} of {classes[column]}"))
                radius = max(1.2, largest * math.sqrt(number / most))
                x = left + (column + 0.5) * step_x
                drawn.append(element("circle", title, cx=x, cy=y, r=radius, class_="share"))
    width = left + step_x * len(classes) + 46
    return picture(*drawn, width=width, height=top + step_y * len(clients) + 8, described=described, class_="classes")
