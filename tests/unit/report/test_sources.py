"""Who helped whom and why: the reason given is never more than the distances say."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.report.page.sources import LayerDistance, strongest, why_close
from scripts.run.mixing_record import MixingRecord
from tests.support.report_runs import CLIENTS, DISTANCES, WEIGHTS

MIXING = MixingRecord(weights=np.array(WEIGHTS), layers=("bn1", "bn2"), distances=np.array(DISTANCES))


def layers(*pairs: tuple[float, float]) -> tuple[LayerDistance, ...]:
    """(distance, mean over all peers) per layer."""
    return tuple(
        LayerDistance(layer=f"bn{at + 1}", distance=near, usual=usual) for at, (near, usual) in enumerate(pairs)
    )


def test_sources_come_by_weight_and_nobody_helps_itself() -> None:
    found = strongest(MIXING, CLIENTS, 0, 5)
    assert [(one.name, one.weight) for one in found] == [("ward-2", 0.4), ("ward-10", 0.1)]


def test_layer_that_makes_a_pair_close_is_named_with_its_figures() -> None:
    """ward-1 to its peers: bn1 1 and 3 (mean 2), bn2 2 and 2 (mean 2). To ward-2 it saves 1 in bn1 and 0 in bn2."""
    nearest = strongest(MIXING, CLIENTS, 0, 1)[0]
    assert nearest.clause == (
        "takes 0.4 from ward-2 because their first-layer statistics are close (bn1 1, usually 2)."
    )


def test_source_that_is_no_closer_than_others_gets_no_reason() -> None:
    """To ward-10 ward-1 saves 2 - 3 = -1 in bn1 and 0 in bn2."""
    assert strongest(MIXING, CLIENTS, 0, 2)[1].because.startswith("although others are equally close")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (layers((1, 2), (1, 3)), "their second-layer statistics are close (bn2 1, usually 3)"),  # 2 of 3: two thirds
        (layers((1, 2), (1, 2.9)), "close in both layers"),  # 1.9 of 2.9: less
        (layers((1, 3), (1, 3), (1, 1)), "their first and second-layer statistics are close"),
        (layers((1, 2), (1, 2), (1, 2)), "close in all layers"),
        (layers((1, 2), (1, 2), (1, 2), (1, 2), (1, 1)), "close in 4 of 5 layers"),
        (layers((1, 2)), "because their statistics are close (bn1 1, usually 2)"),
        (layers((5, 2), (1, 9)), "their second-layer statistics are close"),  # bn1 speaks against it: 8 of 5
    ],
)
def test_reason_names_the_layers_that_carry_two_thirds_of_the_saving(
    found: tuple[LayerDistance, ...], reason: str
) -> None:
    assert reason in why_close(found)


def test_without_distances_only_the_weight_is_told() -> None:
    mixing = MixingRecord(weights=np.array(WEIGHTS))
    assert strongest(mixing, CLIENTS, 0, 1)[0].clause == "takes 0.4 from ward-2."


def test_who_gives_nothing_is_no_source() -> None:
    assert strongest(MixingRecord(weights=np.eye(3)), CLIENTS, 0, 5) == []
