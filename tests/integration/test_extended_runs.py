"""A run that goes on with more rounds than its members agreed to: each of them is asked, and the end is that of one run
of as many rounds. Real processes on both sides."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from coordinator.decisions import facts
from fedap_core.errors import InvalidInput
from tests.support.cohorts import small_run, wait_until
from tests.support.players import final_bits, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.run_files import coordinator_file, participant_file, told_facts

DEADLINE_S = 240.0
BEGAN, EXTENDED = 20, 22


def test_members_that_accept_the_longer_plan_end_as_in_a_run_that_began_with_it(tmp_path: Path) -> None:
    """The coordinator is killed while a member is stopped, so that the run cannot end before."""
    reference = run_reference(tmp_path / "inline", small_run("fedap", rounds=EXTENDED))
    endpoint, log = f"ipc://{tmp_path}/socket", tmp_path / "coordinator.log"
    pace = {"quorum": len(reference.names), "dead_after_s": DEADLINE_S}
    config = coordinator_file(tmp_path, reference, pace=pace, network={"endpoint": endpoint})
    first = ServeProcess("serve", "--config", str(config), "--rounds", str(BEGAN), log=log)
    second: ServeProcess | None = None
    try:
        with players(tmp_path, reference, endpoint, "--config", str(participant_file(tmp_path))) as made:
            wait_until(lambda: _is_training(tmp_path / "run"), "the first round", deadline_s=DEADLINE_S)
            stopped = made[reference.names[0]]
            stopped.kill(signal.SIGSTOP)
            first.kill()
            second = ServeProcess("serve", "--config", str(config), log=log)
            stopped.kill(signal.SIGCONT)
            wait_until(lambda: {one.ended() for one in made.values()} == {2}, "all to ask", deadline_s=DEADLINE_S)
            for player in made.values():
                question = player.log().splitlines()[-1]
                assert f"rounds {BEGAN} → {EXTENDED}" in question
                (digest,) = re.findall(r"--accept-plan ([0-9a-f]{16})", question)
                player.arguments = [*player.arguments, "--accept-plan", digest]
                player.start()
            wait_until(lambda: {one.ended() for one in made.values()} == {0}, "the end", deadline_s=DEADLINE_S)
        assert second.wait() == 0
    finally:
        first.close()
        if second is not None:
            second.close()
    assert final_bits(made) == reference.bits
    closed = [fact.round_no for fact in told_facts(tmp_path / "run") if isinstance(fact, facts.RoundClosed)]
    assert closed == list(range(EXTENDED))


def _is_training(folder: Path) -> bool:
    try:
        return any(isinstance(fact, facts.RoundOpened) for fact in told_facts(folder))
    except InvalidInput:  # there is no journal yet, or one without tables
        return False
