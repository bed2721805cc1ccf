"""Runs with real processes in which something else happens: training alone beside, being asked to leave."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.cohorts import small_run, tensor_bits, wait_until
from tests.support.conductor import RUN, Conductor
from tests.support.players import Player, final_bits, plan_of, players, run_reference


def all_ended(made: dict[str, Player]) -> bool:
    return all(player.ended() is not None for player in made.values())


def test_training_alone_beside_the_federation_gives_the_inline_engines_base_and_changes_nothing_else(
    tmp_path: Path,
) -> None:
    reference = run_reference(tmp_path / "inline", small_run("fedper"))
    alone = run_reference(tmp_path / "base", small_run("base"))
    conductor = Conductor(plan=plan_of(reference), members=reference.names, initial=reference.initial)
    with conductor, players(tmp_path, reference, conductor.endpoint, "--also-local") as made:
        wait_until(lambda: conductor.fault is not None or all_ended(made), "the run to end", deadline_s=240)
        assert "Alone you reach" in made["c1"].log()
    assert final_bits(made) == reference.bits
    trained = {name: tensor_bits(player.state / "state" / RUN / "alone.safetensors") for name, player in made.items()}
    assert trained == alone.bits


def test_asked_to_stop_it_leaves_and_comes_back_to_the_same_end(tmp_path: Path) -> None:
    """SIGTERM ends a process with 128 + 15 after it has said leave; started again, it takes the run up. Another member
    stands still until then, so that the run cannot end before the signal is handled."""
    reference = run_reference(tmp_path / "inline", small_run("fedper"))
    asked: list[str] = []

    def ask(who: str, moment: str) -> None:
        if (who, moment) == ("c1", "said train 1") and not asked:
            asked.append(moment)
            made["c2"].kill(signal.SIGSTOP)
            made["c1"].kill(signal.SIGTERM)

    conductor = Conductor(plan=plan_of(reference), members=reference.names, initial=reference.initial, strike=ask)
    with conductor, players(tmp_path, reference, conductor.endpoint) as made:
        wait_until(lambda: made["c1"].ended() is not None, "the participant to leave", deadline_s=120)
        assert made["c1"].ended() == 143, made["c1"].log()
        assert "leave" in [message.KIND for who, message in conductor.received if who == "c1"]
        made["c2"].kill(signal.SIGCONT)
        made["c1"].start()
        wait_until(lambda: conductor.fault is not None or all_ended(made), "the run to end", deadline_s=240)
    assert final_bits(made) == reference.bits
