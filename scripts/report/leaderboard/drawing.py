"""Draws the leaderboard: ranks over data sets, with bars that join algorithms that are not told apart, and accuracy
against rounds and bytes for the algorithms that matter most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from protocol.host.web.curves import CurveLine, curves_by_width
from protocol.host.web.svg import AxisScale, Svg, element, label, picture, room, ticks, words
from scripts.report.leaderboard.standings import BoardStanding
from scripts.report.page.headline import traffic
from scripts.report.page.overview_view import mean_curve
from scripts.run.ranking import Ranking

_STEP = 22.0
_TOP = 30.0
_WIDTH = 760.0
_BAR_STEP = 9.0
DRAWN = 6
"""This many of the best algorithms are drawn as lines, and in addition those in `ALWAYS`, which readers look for."""
ALWAYS = ("base", "fedavg", "fedap", "fedap-plus")


def rank_chart(ranking: Ranking, colours: Mapping[str, int], *, described: str) -> Svg:
    """Draw a row per algorithm: its average rank and the range of its ranks; bars at the right join neighbours."""
    rows = ranking.algorithms
    left = room([one.name for one in rows]) + 14
    bars = len(ranking.groups) * _BAR_STEP + 12
    x = AxisScale(low=1.0, high=float(max(len(rows), 2)), start=left, stop=_WIDTH - bars - 40)
    bottom = _TOP + _STEP * len(rows)
    drawn: list[Svg] = []
    for value in ticks(x.low, x.high, 10):
        drawn.append(element("line", class_="grid", x1=x(value), x2=x(value), y1=_TOP, y2=bottom))
        drawn.append(label(f"{value:g}", x=x(value), y=_TOP - 8, class_="tick", anchor="middle"))
    for at, one in enumerate(rows):
        y = _TOP + (at + 0.5) * _STEP
        colour = f"c{colours[one.name]}"
        drawn.append(label(one.name, x=left - 12, y=y + 4, class_="row-name", anchor="end"))
        drawn.append(
            element("line", class_=f"interval {colour}", x1=x(min(one.ranks)), x2=x(max(one.ranks)), y1=y, y2=y)
        )
        title = element("title", words(f"{one.name}: average rank {one.mean:.1f}"))
        drawn.append(element("circle", title, cx=x(one.mean), cy=y, r=5.5, class_=f"dot {colour}"))
        drawn.append(label(f"{one.mean:.1f}", x=x.stop + 34, y=y + 4, class_="value", anchor="end"))
    for number, (first, last) in enumerate(ranking.groups):
        place_x = x.stop + 44 + number * _BAR_STEP
        ends = [_TOP + (place + 0.5) * _STEP for place in (first, last)]
        drawn.append(element("line", class_="joined", x1=place_x, x2=place_x, y1=ends[0] - 5, y2=ends[1] + 5))
    return picture(*drawn, width=_WIDTH, height=bottom + 8, described=described, class_="dots")


def round_chart(board: BoardStanding) -> Svg:
    """Draw mean accuracy against rounds."""
    return curves_by_width(_lines(board), described=f"Accuracy per round, {board.title}")


def byte_chart(board: BoardStanding) -> Svg | None:
    """Draw mean accuracy against bytes per participant for algorithms that send any; None if no bytes are known."""
    lines = []
    runs = {one.name: one.runs[0] for one in board.study.algorithms}
    for line in _lines(board):
        sizes = [traffic(runs[line.name], number - 1) for number, _ in line.points]
        if all(size for size in sizes):
            points = [(round((size or 0.0) / 1000), value) for size, (_, value) in zip(sizes, line.points, strict=True)]
            lines.append(replace(line, points=tuple(points), band=()))
    if not lines:
        return None
    described = f"Accuracy against bytes, {board.title}"
    return curves_by_width(lines, described=described, across="kB per participant, both ways")


def _lines(board: BoardStanding) -> list[CurveLine]:
    """Return the lines of the best algorithms and of those in `ALWAYS`, in the order of the study."""
    best = {row.head.name for row in board.rows[:DRAWN]}
    kept = [one for one in board.study.algorithms if one.name in best or one.kind in ALWAYS]
    lines = [mean_curve(board.study, one) for one in kept]
    return [replace(line, band=(), strong=line.name == board.rows[0].head.name) for line in lines]
