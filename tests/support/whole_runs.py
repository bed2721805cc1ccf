"""Runs a coordinator's process and all of a reference's participants to the end that a good run has."""

from __future__ import annotations

from pathlib import Path

from tests.support.cohorts import wait_until
from tests.support.players import Player, Reference, players
from tests.support.processes import ServeProcess


def run_to_its_end(
    folder: Path, reference: Reference, config: Path, *more: str, deadline_s: float = 180.0
) -> dict[str, Player]:
    """Everybody, the coordinator too, exits with 0; its log lies in `folder`. more: options of the participants."""
    coordinator = ServeProcess("serve", "--config", str(config), log=folder / "coordinator.log")
    try:
        with players(folder, reference, coordinator.ready(), *more) as made:
            wait_until(
                lambda: all(one.ended() is not None for one in made.values()), "the run to end", deadline_s=deadline_s
            )
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
        assert coordinator.wait() == 0
    finally:
        coordinator.close()
    return made
