"""Drawings: scales, ticks, shades, thinning, labels apart, escaping; numbers as people read them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from protocol.host.web.curves import MOST_POINTS, CurveLine, curves, spread_out, thinned
from protocol.host.web.heat import SHADES, heat_map, shade
from protocol.host.web.svg import AxisScale, element, ticks, words
from scripts.report.page.bars import Bar, Piece, bars
from scripts.report.page.participant_view import confusion
from scripts.report.page.study import natural_order
from scripts.report.page.wording import algorithm_name, duration, listed, ordinal, points, size


@pytest.mark.parametrize(
    ("low", "high", "about", "found"),
    [
        (0, 100, 5, [0, 20, 40, 60, 80, 100]),
        (84.2, 91.7, 6, [86, 88, 90]),
        (0.0, 1.0, 4, [0.0, 0.5, 1.0]),
        (7, 7, 5, [7]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, about: int, found: list[float]) -> None:
    assert ticks(low, high, about) == found


def test_scale_of_one_value_puts_it_in_the_middle() -> None:
    assert AxisScale(low=1, high=1, start=0, stop=10)(1) == 5
    assert AxisScale(low=0, high=4, start=10, stop=0)(1) == 7.5


def test_text_and_attributes_are_escaped() -> None:
    drawn = element("text", words("<&>"), class_='a"b', font_size=1.25, nothing=None)
    assert drawn == '<text class="a&quot;b" font-size="1.2">&lt;&amp;&gt;</text>'


def test_shades_run_from_nothing_to_the_largest_weight_of_another() -> None:
    assert [shade(value, 0.6) for value in (0.0, 0.3, 0.6)] == [0, SHADES // 2, SHADES - 1]
    assert shade(0.0, 0.0) == 0


def test_own_weight_has_no_shade_in_the_heat_map() -> None:
    """Two clients, each half its own: the only other weight is the largest, and the diagonal is drawn apart."""
    drawn = heat_map(np.full((2, 2), 0.5), ["a", "b"], [1, 0], described="W", source="figures")
    assert drawn.count('class="own"') == 1
    assert f'class="h{SHADES - 1}"' in drawn
    assert 'class="h0"' not in drawn


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    whole = [(number, 0.5) for number in range(1000)]
    kept = thinned(whole)
    assert len(kept) <= MOST_POINTS + 1
    assert (kept[0], kept[-1]) == (whole[0], whole[-1])
    assert thinned(whole[:20]) == tuple(whole[:20])


def test_labels_move_apart_and_stay_inside() -> None:
    assert spread_out([10, 11, 50], gap=10, low=0, high=100) == [10, 20, 50]
    assert spread_out([95, 99, 98], gap=10, low=0, high=100) == [80, 100, 90]
    assert spread_out([], gap=10, low=0, high=100) == []


def test_confusions_leave_out_classes_that_do_not_occur() -> None:
    """Of six a's four are found, two are taken for c; nobody is or is called b."""
    shown = confusion("FedAP", ("a", "b", "c"), ((4, 0, 2), (0, 0, 0), (0, 0, 3)))
    assert shown.classes == ("a", "c")
    assert [(name, [count for count, _, _ in cells], found) for name, cells, found in shown.rows] == [
        ("a", [4, 2], "67\u202f%"),
        ("c", [0, 3], "100\u202f%"),
    ]
    assert shown.mistakes == ("a taken for c: 2",)


def test_too_many_classes_are_told_by_their_mistakes_alone() -> None:
    counts = tuple(tuple(int(i == j) + (i == 0 and j == 1) for j in range(40)) for i in range(40))
    shown = confusion("FedAP", tuple(map(str, range(40))), counts)
    assert (shown.rows, shown.mistakes) == ((), ("0 taken for 1: 1",))


def test_names_are_sorted_as_people_do() -> None:
    names = ["s-10", "s-2", "s-1", "r"]
    assert [names[at] for at in natural_order(names)] == ["r", "s-1", "s-2", "s-10"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "FedAP"),
        ({"self_weight": "0.7"}, "FedAP λ=0.7"),
        ({"full_covariance": "true", "self_weight": "0.3"}, "FedAP full covariance, λ=0.3"),
        ({"full_covariance": "False"}, "FedAP full_covariance=False"),
        ({"max_peer_weight": "0.2"}, "FedAP max_peer_weight=0.2"),
    ],
)
def test_options_are_abbreviated(options: dict[str, str], name: str) -> None:
    assert algorithm_name("fedap", options) == name


def test_margins_grow_with_the_longest_label_and_nothing_of_it_is_cut() -> None:
    """A curve ends where its name begins; a bar begins where its name ends."""
    ends, starts = [], []
    for name in ("FedAP", "FedAP max_peer_weight=0.2"):
        line = curves([CurveLine(name=name, colour=0, points=((1, 0.5), (2, 0.6)))], described="")
        bar = bars([Bar(name=name, pieces=(Piece(amount=1, class_="", title=""),), value="1")], described="")
        assert f"</title>{name}</text>" in line
        assert f"</title>{name}</text>" in bar
        ends += [float(found) for found in re.findall(r'data-right="([\d.]+)"', line)]
        starts += [float(found) for found in re.findall(r'<rect x="([\d.]+)"', bar)][:1]  # of the drawing for a screen
    assert ends[0] - ends[1] > 80
    assert starts[1] - starts[0] > 80


def test_numbers_read_well() -> None:
    assert [size(999), size(1000), size(123_456), size(999_600)] == [
        "999\u202fB",
        "1.0\u202fkB",
        "123\u202fkB",
        "1.0\u202fMB",
    ]
    assert [duration(0.5), duration(42), duration(150), duration(9000)] == [
        "0.50\u202fs",
        "42\u202fs",
        "2.5\u202fmin",
        "2.5\u202fh",
    ]
    assert [points(0.01), points(-0.0615, sign=True), points(-0.02)] == ["1.0 point", "−6.2 points", "2.0 points"]
    assert points(-0.0001, sign=True) == "0.0 points"
    assert [ordinal(1), ordinal(10), ordinal(20), listed(["a", "b", "c"])] == ["second", "11th", "21st", "a, b and c"]
