"""Real processes under one name: a second one ends with a sentence while the first goes on undisturbed and is warned; a
new state folder waits until the killed process that had the old one counts as dead.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.decisions import facts
from tests.support.cohorts import run_command, small_run, tensor_bits, wait_until
from tests.support.players import Player, Reference, final_bits, players, run_reference
from tests.support.processes import served
from tests.support.run_files import coordinator_file, only, told_facts

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return run_reference(tmp_path_factory.mktemp("inline"), small_run("fedap"))


def second(player: Player, tmp_path: Path) -> Player:
    """The same command with a state folder of its own."""
    arguments = [str(tmp_path / "second") if one == str(player.state) else one for one in player.arguments]
    return replace(player, name="second", arguments=arguments, process=None, lives=0)


def has_said(player: Player, event: str) -> bool:
    return any(line["event"] == event for line in player.lines())


@contextmanager
def alive(player: Player) -> Iterator[None]:
    """It lives within the block and not beyond."""
    player.start()
    try:
        yield
    finally:
        if player.ended() is None:
            player.kill()
        if player.process is not None:
            player.process.wait()


@pytest.mark.slow
def test_a_second_process_ends_and_the_first_continues_with_the_same_bits(reference: Reference, tmp_path: Path) -> None:
    """The last member comes when the second process under the first one's name has ended: nothing is over before."""
    late, *names = reference.names
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 30.0})
    with ExitStack() as stack:
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        endpoint = coordinator.ready()
        made = stack.enter_context(players(tmp_path, only(reference, names), endpoint))
        first = made[names[0]]
        wait_until(lambda: has_said(first, "run.joined"), "the first to be a member", deadline_s=DEADLINE_S)
        other = second(first, tmp_path)
        with alive(other):
            wait_until(lambda: other.ended() is not None, "the second to end", deadline_s=DEADLINE_S)
        made |= stack.enter_context(players(tmp_path, only(reference, [late]), endpoint))
        wait_until(lambda: all(one.ended() == 0 for one in made.values()), "the run to end", deadline_s=DEADLINE_S)
        assert coordinator.wait() == 0
    assert other.ended() == 2
    assert "refused, name-in-use" in other.log()
    assert "Traceback" not in other.log()
    assert has_said(first, "name.contested")
    assert final_bits(made) == reference.bits
    assert [fact.member for fact in told_facts(tmp_path / "run") if isinstance(fact, facts.Contested)] == [first.name]
    status = run_command(main, "status", str(tmp_path / "run"))
    assert "the name is in use by process" in status.out
    token = (first.state / "instance").read_text().strip()
    assert stat.S_IMODE((first.state / "instance").stat().st_mode) == 0o600
    everything = [first.log(), other.log(), (tmp_path / "coordinator.log").read_text(), status.out]
    assert not any(token in text for text in everything)


@pytest.mark.slow
def test_of_two_processes_with_copies_of_one_state_folder_one_ends_and_the_other_has_the_same_bits(
    reference: Reference, tmp_path: Path
) -> None:
    """The folder is copied and started while its participant is a member; the last member comes when one has ended."""
    late, *names = reference.names
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 30.0})
    with ExitStack() as stack:
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        endpoint = coordinator.ready()
        made = stack.enter_context(players(tmp_path, only(reference, names), endpoint))
        first = made[names[0]]
        wait_until(lambda: has_said(first, "run.joined"), "the first to be a member", deadline_s=DEADLINE_S)
        shutil.copytree(first.state, tmp_path / "second")
        other = second(first, tmp_path)
        with alive(other):
            both = (first, other)
            wait_until(lambda: any(one.ended() is not None for one in both), "one to end", deadline_s=DEADLINE_S)
            ended, stays = sorted(both, key=lambda one: one.ended() is None)
            made |= stack.enter_context(players(tmp_path, only(reference, [late]), endpoint))
            rest = (stays, *(player for name, player in made.items() if name != first.name))
            wait_until(lambda: all(one.ended() == 0 for one in rest), "the run to end", deadline_s=DEADLINE_S)
            assert coordinator.wait() == 0
    assert ended.ended() == 2
    assert "with a copy of this one's --state folder" in ended.log()
    assert "Traceback" not in first.log() + other.log()
    state = first.state if stays is first else tmp_path / "second"
    assert tensor_bits(state / "personal.safetensors") == reference.bits[first.name]


@pytest.mark.slow
def test_a_new_state_folder_waits_until_the_killed_process_counts_as_dead(reference: Reference, tmp_path: Path) -> None:
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 6.0})
    with ExitStack() as stack:
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        made = stack.enter_context(players(tmp_path, only(reference, reference.names[:1]), coordinator.ready()))
        (first,) = made.values()
        wait_until(lambda: has_said(first, "run.joined"), "the first to be a member", deadline_s=DEADLINE_S)
        other = second(first, tmp_path)
        first.kill()
        with alive(other):
            wait_until(lambda: has_said(other, "run.joined"), "the second to be a member", deadline_s=DEADLINE_S)
            assert other.ended() is None
    told = [type(fact).__name__ for fact in told_facts(tmp_path / "run")]
    assert "Returned" in told[told.index("Joined") :]
