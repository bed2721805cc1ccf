"""Draws accuracy against rounds: a line per algorithm, its name at its end, the range over seeds as a band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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

CurveRows = tuple[tuple[int, tuple[float | None, ...]], ...]
"""(round, value of every line or None)."""

_GAP = 8.0
"""Pixels between the end of a line and its name."""

MOST_POINTS = 150
"""More points would not be visible at this width."""


@dataclass(frozen=True, kw_only=True)
class CurveLine:
    """One line. points: (round from 1, share); band: (round, lowest, highest), empty with one seed."""

    name: str
    colour: int
    points: tuple[tuple[int, float], ...]
    band: tuple[tuple[int, float, float], ...] = ()
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The dimensions of a chart, in its own pixels; right is the minimum space for names."""

    width: float = 940
    height: float = 380
    left: float = 46
    right: float = 104
    top: float = 26
    bottom: float = 40


WIDE = Frame()
NARROW = Frame(width=NARROW_WIDTH, height=280, left=36, right=52, bottom=36)
"""For a phone: drawn at its own size instead of scaled down."""

_FOR_NAMES = 0.4
"""Largest share of the width for names; longer ones are cut, and shown in full under the pointer."""


def thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Keep at most MOST_POINTS of the points, always including the last."""
    step = math.ceil(len(points) / MOST_POINTS)
    kept = list(points[::step]) if step > 1 else list(points)
    return tuple(kept if not points or kept[-1] == points[-1] else [*kept, points[-1]])


def curve_rows(series: Sequence[CurveLine], *, about: int) -> CurveRows:
    """Return the lines as a table of about `about` rounds, including the last."""
    rounds = sorted({number for one in series for number, _ in one.points})
    kept = rounds[::-1][:: max(1, len(rounds) // about)][::-1]
    values = [dict(one.points) for one in series]
    return tuple((number, tuple(line.get(number) for line in values)) for number in kept)


def curves(
    series: Sequence[CurveLine],
    *,
    described: str,
    frame: Frame = WIDE,
    low: float | None = None,
    across: str = "round",
) -> Svg:
    """Draw the chart. low: lower end of the scale, to enlarge the upper part; what is below is cut off.

    across: the meaning of the horizontal axis.
    """
    shown = [one for one in series if one.points]
    frame = _with_room(frame, shown)
    values = [value for one in shown for _, value in one.points]
    floor = math.floor(10 * min(values)) / 10 if low is None else low
    ceiling = min(1.0, math.ceil(20 * max(values)) / 20) if low is None else max(values) + 0.1 * (max(values) - low)
    if ceiling <= floor:
        floor, ceiling = max(0.0, floor - 0.1), min(1.0, ceiling + 0.1)
    rounds = [number for one in shown for number, _ in one.points]
    x = AxisScale(low=min(rounds), high=max(rounds), start=frame.left, stop=frame.width - frame.right)
    y = AxisScale(low=floor, high=ceiling, start=frame.height - frame.bottom, stop=frame.top)
    order = sorted(shown, key=lambda one: one.strong)
    return picture(
        *_grid(x, y, frame, across),
        _clipped([*(_band(one, x, y) for one in order if one.band), *(_line(one, x, y) for one in order)], frame),
        *_names(shown, x, y, frame),
        element("line", class_="cursor", x1=-9, x2=-9, y1=frame.top, y2=frame.height - frame.bottom),
        width=frame.width,
        height=frame.height,
        described=described,
        class_="curves",
        data_low=x.low,
        data_high=x.high,
        data_left=x.start,
        data_right=x.stop,
    )


def curves_by_width(
    series: Sequence[CurveLine],
    *,
    described: str,
    wide: Frame = WIDE,
    low: float | None = None,
    across: str = "round",
) -> Svg:
    """Draw the chart twice: for a screen and for a phone."""
    screen, telephone = (
        curves(series, described=described, frame=frame, low=low, across=across) for frame in (wide, NARROW)
    )
    return by_width(screen, telephone)


def _with_room(frame: Frame, series: Sequence[CurveLine]) -> Frame:
    needed = _GAP + room([short(one.name, _letters(frame)) for one in series], strong=True)
    return replace(frame, right=max(frame.right, needed))


def _letters(frame: Frame) -> int:
    return int(_FOR_NAMES * frame.width / room("m", strong=True))


def _grid(x: AxisScale, y: AxisScale, frame: Frame, across: str) -> list[Svg]:
    drawn = []
    for value in ticks(100 * y.low, 100 * y.high, 6):
        at = y(value / 100)
        drawn.append(element("line", class_="grid", x1=frame.left, x2=frame.width - frame.right, y1=at, y2=at))
        drawn.append(label(f"{value:g}", x=frame.left - 8, y=at + 4, class_="tick", anchor="end"))
    bottom = frame.height - frame.bottom
    whole = [value for value in ticks(x.low, x.high, 8) if value == int(value)]
    drawn.extend(label(f"{value:g}", x=x(value), y=bottom + 18, class_="tick", anchor="middle") for value in whole)
    middle = (frame.left + frame.width - frame.right) / 2
    drawn.append(label(across, x=middle, y=frame.height - 4, class_="axis", anchor="middle"))
    drawn.append(label("accuracy, %", x=frame.left - 30, y=11, class_="axis"))
    return drawn


def _clipped(drawn: Sequence[Svg], frame: Frame) -> Svg:
    """Clip at the frame's bottom; elsewhere leave space for the width of a line."""
    left, top = frame.left - 4, frame.top - 4
    width, height = frame.width - frame.right - left + 4, frame.height - frame.bottom - top
    return element("svg", *drawn, x=left, y=top, width=width, height=height, viewBox=f"{left} {top} {width} {height}")


def _line(one: CurveLine, x: AxisScale, y: AxisScale) -> Svg:
    path = " ".join(f"{x(number):.1f},{y(value):.1f}" for number, value in one.points)
    kind = "line strong" if one.strong else "line"
    marks = {"class_": f"{kind} c{one.colour}", "data_name": one.name}
    if len(one.points) == 1:  # a line to itself with round ends is a dot
        return element("polyline", points=f"{path} {path}", stroke_linecap="round", **marks)
    return element("polyline", points=path, **marks)


def _band(one: CurveLine, x: AxisScale, y: AxisScale) -> Svg:
    upper = [f"{x(number):.1f},{y(high):.1f}" for number, _, high in one.band]
    lower = [f"{x(number):.1f},{y(low):.1f}" for number, low, _ in reversed(one.band)]
    return element("polygon", points=" ".join(upper + lower), class_=f"band c{one.colour}", data_name=one.name)


def _names(series: Sequence[CurveLine], x: AxisScale, y: AxisScale, frame: Frame) -> list[Svg]:
    """Draw the names at the ends of the lines, at least one text line apart."""
    ends = [y(max(one.points[-1][1], y.low)) for one in series]
    heights = spread_out(ends, gap=15, low=frame.top + 4, high=frame.height - frame.bottom)
    drawn = []
    for one, height in zip(series, heights, strict=True):
        at = x(one.points[-1][0])
        kind = f"name c{one.colour}{' strong' if one.strong else ''}"
        text, title = words(short(one.name, _letters(frame))), element("title", words(one.name))
        drawn.append(element("text", title, text, x=at + _GAP, y=height + 4, class_=kind, data_name=one.name))
    return drawn


def spread_out(places: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Return the places moved so that all are `gap` apart and within low..high; the moves are small, not minimal."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = [min(max(place, low), high) for place in places]
    for before, at in pairwise(order):
        moved[at] = max(moved[at], moved[before] + gap)
    if order and moved[order[-1]] > high:
        moved[order[-1]] = high
        for after, at in pairwise(reversed(order)):
            moved[at] = min(moved[at], moved[after] - gap)
    return moved
