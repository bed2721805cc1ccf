"""How algorithms are shown: one order, one spelling, one style each, and every style can be read on both grounds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import pytest

from fedap_core.strategies import STRATEGIES, Strategy
from protocol.host.web.colours import contrast_ratio
from scripts.report.algorithms import colour, option_in_short, place, spelled, style

LIGHT, DARK = ("#ffffff", "#f7f7f5"), ("#121518", "#1a1e22")
"""Grounds and cards of the report's page."""


@dataclass(frozen=True, kw_only=True)
class FedNew(Strategy):
    """An algorithm that somebody adds."""

    name: ClassVar[str] = "fed-new"


def test_contrast_is_wcags() -> None:
    """Black on white: (1 + 0.05) / (0 + 0.05) = 21. #777777 on white is the textbook's 4.48."""
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast_ratio("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("at", range(40))
def test_every_style_can_be_read_on_light_and_on_dark(at: int) -> None:
    assert min(contrast_ratio(style(at).light, ground) for ground in LIGHT) >= 4.5
    assert min(contrast_ratio(style(at).dark, ground) for ground in DARK) >= 4.5


def test_styles_of_the_table_and_a_dozen_more_differ() -> None:
    looks = [style(at) for at in range(len(STRATEGIES) + 12)]
    assert all(one.light != other.light and one.dark != other.dark for one, other in combinations(looks, 2))


def test_added_algorithm_has_its_own_name_place_and_colour_and_changes_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {name: (place(name), colour(name)) for name in STRATEGIES}
    monkeypatch.setitem(STRATEGIES, "fed-new", FedNew)
    assert {name: (place(name), colour(name)) for name in before} == before
    assert spelled("fed-new:mu=1") == "FedNew:mu=1"
    assert place("fed-new") == len(before)
    assert colour("fed-new") not in {shade for _, shade in before.values()}


def test_options_change_neither_place_nor_colour() -> None:
    assert (place("fedap:self_weight=0.3"), colour("fedap:self_weight=0.3")) == (place("fedap"), colour("fedap"))
    assert spelled("fedap:self_weight=0.3") == "FedAP:self_weight=0.3"


def test_users_algorithm_stands_behind_the_table_under_its_own_name() -> None:
    assert spelled("my.module:Mine") == "my.module:Mine"
    assert place("my.module:Mine") >= len(STRATEGIES)
    assert place("my.module:Mine") == place("my.module:Mine")


def test_options_are_written_in_short() -> None:
    found = [option_in_short("self_weight", "0.7"), option_in_short("equal", "true"), option_in_short("epochs", "2")]
    assert found == ["λ=0.7", "equal weights", "epochs=2"]
