"""One order of clients in every picture of W: similar ones side by side, in figures and on pages alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts.report.figures import draw_mixing
from scripts.report.page.finding import find_runs
from scripts.report.page.mixing_view import mixing_views
from scripts.report.page.study import make_study
from scripts.report.similarity import by_similarity
from tests.support.report_runs import write_run


def test_figure_and_page_show_clients_in_the_same_order(tmp_path: Path) -> None:
    """Closest are c and d, then always the nearest left: a, b. Both axes of both."""
    clients = ("a", "b", "c", "d")
    weights = [[0.5, 0.1, 0.1, 0.3], [0.2, 0.5, 0.2, 0.1], [0.05, 0.05, 0.5, 0.4], [0.1, 0.0, 0.4, 0.5]]
    write_run(tmp_path, "fedap", [[50] * 4], clients=clients, weights=weights)
    (view,) = mixing_views(make_study(find_runs([tmp_path])))
    axes = draw_mixing(np.array(weights), clients, "W").axes[0]
    drawn = [[label.get_text() for label in labels] for labels in (axes.get_xticklabels(), axes.get_yticklabels())]
    assert drawn == [list(view.names)] * 2 == [["c", "d", "a", "b"]] * 2
    assert [name for name, _ in view.rows] == ["c", "d", "a", "b"]


def test_clients_that_take_from_each_other_stand_together() -> None:
    """Two pairs, 0 with 3 and 1 with 2, each far from the other."""
    weights = np.full((4, 4), 0.05)
    for one, other in ((0, 3), (1, 2)):
        weights[one, other] = weights[other, one] = 0.4
    order = by_similarity(weights)
    assert sorted(order) == [0, 1, 2, 3]
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 3}), frozenset({1, 2})}


def test_chain_of_similar_clients_is_laid_out_as_a_chain() -> None:
    """0 - 2 - 1 - 3: neighbours are close, and no order but this or its reverse keeps all of them side by side."""
    weights = np.zeros((4, 4))
    for one, other, weight in ((0, 2, 0.5), (2, 1, 0.3), (1, 3, 0.5)):
        weights[one, other] = weights[other, one] = weight
    assert by_similarity(weights) in ([0, 2, 1, 3], [3, 1, 2, 0])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_clients_need_no_order(count: int) -> None:
    assert sorted(by_similarity(np.eye(count))) == list(range(count))
