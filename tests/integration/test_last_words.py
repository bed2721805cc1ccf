"""A participant that is killed between its goodbye and its end, and started again when nobody is there any more."""

from __future__ import annotations

from pathlib import Path

from tests.support.cohorts import small_run, wait_until
from tests.support.conductor import Conductor
from tests.support.players import Player, final_bits, plan_of, players, run_reference
from tests.support.run_files import participant_file


def test_killed_behind_its_goodbye_it_ends_normally_after_a_restart(tmp_path: Path) -> None:
    reference = run_reference(tmp_path / "inline", small_run("fedavg", rounds=1, cohort={"clients": 1}))
    (name,) = reference.names
    victims: list[Player] = []

    def strike(_who: str, moment: str) -> None:
        if moment.startswith("heard goodbye") and victims[0].lives == 1:
            victims[0].kill()

    conductor = Conductor(plan=plan_of(reference), members=[name], initial=reference.initial, strike=strike)
    patience = ("--config", str(participant_file(tmp_path, farewell_s=2.0)))
    with conductor as open_conductor, players(tmp_path, reference, open_conductor.endpoint, *patience) as made:
        victims.append(made[name])
        wait_until(lambda: made[name].ended() is not None, "the kill")
        assert made[name].ended() == -9
        open_conductor.__exit__()
        made[name].start()
        wait_until(lambda: made[name].ended() is not None, "the end of its second life")
        assert made[name].ended() == 0
    assert "is over; its final model is in the state folder" in made[name].log()
    assert final_bits(made) == reference.bits
