"""SIGKILL of a participant at every moment of a run, and the same command again: the run ends with the same bits."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cohorts import BOTH_SIZES, MODELS, small_run, wait_until
from tests.support.conductor import Conductor
from tests.support.players import Player, final_bits, plan_of, players, run_reference

VICTIM = "c2"
MOMENTS = {
    "fedap": (
        "heard hello",
        "said welcome",
        "said anchor 0",
        "heard stats 0",
        "said train 0",
        "heard update 0",
        "said train 1",
        "heard update 1",
        "said finish 3",
    ),
    "ditto": ("said train 0", "heard update 0", "heard update 1", "said finish 3"),
    "apfl": ("said train 0", "heard update 0", "heard update 1", "said finish 3"),
    "feddbe": ("said train 0", "heard update 1", "said finish 3"),
    "scaffold": ("heard update 0", "said train 1", "heard update 1", "said finish 3"),
    "fedala": ("said train 1", "heard update 1", "said finish 3"),
    "fedavgm": ("said train 1", "heard update 1", "said finish 3"),
    "fedrep": ("said train 0", "heard update 1", "said finish 3"),
    "f-fedap": ("said train 0", "heard update 0", "heard update 2", "said finish 3"),
}
"""f-FedAP of three rounds measures in round 0: a killed participant must repeat its statistics as they were.
Ditto keeps a second model at home, APFL vectors too, FedRep trains twice in a round; FedALA and FedAvgM act on
delivery; SCAFFOLD and FedDBE send tensors beside the weights."""


class Executioner:
    """Kills the victim once at each of the moments, in the conductor's thread; the test revives it."""

    def __init__(self, moments: tuple[str, ...]) -> None:
        self._left = list(moments)
        self._lock = threading.Lock()
        self.victim: Player | None = None
        self.killed: list[str] = []
        self._ended_lives = 0

    def strike(self, who: str, moment: str) -> None:
        """Once per life: two moments may fall together, and the later one comes again in the next life."""
        with self._lock:
            alive = self.victim is not None and self.victim.lives > self._ended_lives
            if who == VICTIM and self.victim is not None and alive and moment in self._left:
                self._left.remove(moment)
                self._ended_lives = self.victim.lives
                self.killed.append(moment)
                self.victim.kill()

    @property
    def is_done(self) -> bool:
        return not self._left


@pytest.mark.parametrize("travels", BOTH_SIZES)
@pytest.mark.parametrize(
    "algorithm",
    [
        "fedap",
        "ditto",
        *(pytest.param(name, marks=pytest.mark.slow) for name in MOMENTS if name not in ("fedap", "ditto")),
    ],
)
def test_participant_killed_in_every_phase_ends_with_the_same_model(
    tmp_path: Path, algorithm: str, travels: str
) -> None:
    reference = run_reference(tmp_path / "inline", small_run(algorithm, model=MODELS[travels]))
    executioner = Executioner(MOMENTS[algorithm])
    conductor = Conductor(
        plan=plan_of(reference),
        members=reference.names,
        initial=reference.initial,
        anchor=reference.anchor,
        strike=executioner.strike,
    )
    with conductor, players(tmp_path, reference, conductor.endpoint) as made:
        executioner.victim = victim = made[VICTIM]

        def everybody_ended_well() -> bool:
            if victim.ended() == -9:
                victim.start()
            return conductor.fault is not None or all(player.ended() == 0 for player in made.values())

        wait_until(everybody_ended_well, f"the run to end; {executioner.killed}", deadline_s=400)
        assert conductor.fault is None
        assert executioner.is_done, executioner.killed
        assert victim.lives == 1 + len(executioner.killed)
    assert final_bits(made) == reference.bits
    trained = Counter(line["round"] for line in victim.lines() if line["event"] == "round.trained")
    assert set(trained) <= {1, 2, 3}
    assert max(trained.values()) == 1, "a finished round was trained again"
