"""Every scenario of docs/hostile-coordinator.md, over a real socket: nothing leaves, runs or changes unagreed."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.limits import SLICE_BYTES
from scripts.drill.hostile.coordinator import SCENARIOS, SLICED, ScenarioData, page, perform
from scripts.drill.model import model_name

SLICED_BY_DEFAULT = ("train-absurd", "finish-nan", "slices-other", "slices-misplaced", "grants-beyond")
"""One of each kind; the slow tests play the others."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ScenarioData:
    return ScenarioData.made(tmp_path_factory.mktemp("cast"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_hostile_coordinator_gets_nothing_that_was_not_agreed_to(name: str, data: ScenarioData, tmp_path: Path) -> None:
    outcome = perform(SCENARIOS[name], data, tmp_path)
    assert outcome.faults == ()


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> ScenarioData:
    return ScenarioData.made(tmp_path_factory.mktemp("sliced"), model_name(2 * SLICE_BYTES))


def _cheap_or_slow(name: str) -> object:
    return name if name in SLICED_BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [_cheap_or_slow(name) for name in SLICED])
def test_models_that_travel_in_slices_give_it_no_more(name: str, sliced: ScenarioData, tmp_path: Path) -> None:
    outcome = perform(SLICED[name], sliced, tmp_path)
    assert outcome.faults == ()
    if name in SLICED_BY_DEFAULT:
        assert {"grant", "slice"} <= {message.KIND for message in outcome.received}


def test_the_published_list_is_what_is_played() -> None:
    published = Path(__file__).resolve().parents[2] / "docs" / "hostile-coordinator.md"
    assert published.read_text(encoding="utf-8") == page(), "run python -m scripts.drill.hostile.coordinator"
    assert len(SCENARIOS) >= 25
