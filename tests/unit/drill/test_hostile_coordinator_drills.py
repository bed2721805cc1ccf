"""Claims about drills with a hostile coordinator: which scenarios are played, and what counts against a participant."""

from __future__ import annotations

from scripts.drill.hostile.coordinator import SCENARIOS
from scripts.drill.hostile_coordinator_drills import KIND, chosen, verdict_of
from scripts.drill.spec import Drill


def test_a_hundred_seeds_play_every_scenario_and_equal_seeds_the_same() -> None:
    drills = [Drill(seed=seed, kind=KIND, model_bytes=1, curve=False) for seed in range(100)]
    plays = [chosen(one) for one in drills]
    assert plays == [chosen(one) for one in drills]
    assert {name for play in plays for name in play} == set(SCENARIOS)


def test_only_what_was_played_to_its_end_without_a_fault_is_survived() -> None:
    assert verdict_of(["x", "y"], {"x": [], "y": []}, 0).survived
    assert verdict_of(["x"], {"x": ["update left"]}, 0).complaints == ("x: update left",)
    assert verdict_of(["x", "y"], {"x": []}, 0).complaints == ("y was not played to its end",)
    assert verdict_of(["x"], {"x": []}, -6).complaints == ("the scenarios' process ended with -6",)
    assert verdict_of(["x"], {"x": []}, None).complaints == ("the scenarios did not end",)
