"""Whole runs with real processes, started by the real command: the same bits as the inline engine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cohorts import small_run, wait_until
from tests.support.conductor import Conductor
from tests.support.players import Player, final_bits, plan_of, players, run_reference


def all_ended(made: dict[str, Player]) -> bool:
    return all(player.ended() is not None for player in made.values())


@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap", "fedper", "base"])
def test_networked_run_ends_with_the_inline_engines_models(tmp_path: Path, algorithm: str) -> None:
    reference = run_reference(tmp_path / "inline", small_run(algorithm))
    conductor = Conductor(
        plan=plan_of(reference), members=reference.names, initial=reference.initial, anchor=reference.anchor
    )
    with conductor, players(tmp_path, reference, conductor.endpoint) as made:
        wait_until(lambda: conductor.fault is not None or all_ended(made), "the run to end", deadline_s=240)
        logs = {name: player.log() for name, player in made.items()}
        assert {name: player.ended() for name, player in made.items()} == dict.fromkeys(made, 0), logs
    assert final_bits(made) == reference.bits
