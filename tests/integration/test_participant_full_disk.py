"""The claim that a participant's full disk loses nothing: it says so, gives signs of life, sends nothing unrecorded,
goes on by itself when there is room, and the run ends with the bits of one that never waited. The same for a folder
that is moved away and back.
Real processes, a real disk.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator.decisions import facts
from tests.support.cohorts import small_run, wait_until
from tests.support.disks import fill, small_disk
from tests.support.players import Player, Reference, final_bits, players, run_reference
from tests.support.processes import served
from tests.support.proxy import Hold, Proxy
from tests.support.run_files import coordinator_file, only, told_facts

DEADLINE_S = 120.0
BEATS = 14
"""Heartbeats on a full disk: at half a second each, longer than the silence after which a member counts as dead."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return run_reference(tmp_path_factory.mktemp("inline"), small_run("fedap"))


def has_said(player: Player, event: str) -> bool:
    assert player.ended() is None or player.ended() == 0, player.log()
    return any(line["event"] == event for line in player.lines())


def recorded(player: Player, kind: str) -> int:
    """Lines of that kind in the record, the room set aside included."""
    texts = [(player.state / name).read_bytes() for name in ("sent.jsonl", "sent.reserve")]
    return sum(text.count(f'"kind": "{kind}"'.encode()) for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "leave", [pytest.param(0, id="to the last byte"), pytest.param(64 << 10, id="no room for a model")]
)
def test_a_participant_waits_for_room_and_changes_no_bit(reference: Reference, tmp_path: Path, leave: int) -> None:
    """Filled when the victim has joined and the last member has not; freed when it has given signs of life for longer
    than dead_after_s. With no byte left, nothing can be recorded; with a little, no round can be saved."""
    late, *names = reference.names
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 6.0})
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / names[0]))
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        endpoint = coordinator.ready()
        made = stack.enter_context(players(tmp_path, only(reference, names), endpoint))
        victim = made[names[0]]
        wait_until(lambda: (victim.state / "state" / "current").exists(), "the victim to join", deadline_s=DEADLINE_S)
        ballast = fill(disk, leave=leave)
        made |= stack.enter_context(players(tmp_path, only(reference, [late]), endpoint))
        wait_until(lambda: has_said(victim, "disk.full"), "the victim to say that it waits", deadline_s=DEADLINE_S)
        before = recorded(victim, "heartbeat")
        wait_until(lambda: recorded(victim, "heartbeat") >= before + BEATS, "signs of life", deadline_s=DEADLINE_S)
        assert victim.ended() is None
        assert recorded(victim, "update") == 0
        assert not any(isinstance(fact, facts.UpdateAccepted) and fact.member == victim.name for fact in told(tmp_path))
        ballast.unlink()
        wait_until(lambda: all(one.ended() == 0 for one in made.values()), "the run to end", deadline_s=DEADLINE_S)
        assert coordinator.wait() == 0
        assert has_said(victim, "disk.free")
        assert final_bits(made) == reference.bits
        assert set((victim.state / "sent.reserve").read_bytes()) == {0}
        assert [line["kind"] for line in victim.sent()].count("update") == reference.settings.rounds
    assert [fact for fact in told(tmp_path) if isinstance(fact, facts.Lost | facts.Left | facts.Quarantined)] == []


@pytest.mark.slow
def test_a_disk_that_is_full_when_the_run_ends_delays_the_end_alone(reference: Reference, tmp_path: Path) -> None:
    """Another member's last update is held back: the victim has sent its own, and what it needs room for is the final
    model. A member's traffic in a whole run is nine models, seven of them before its third update."""
    other, *names = reference.names
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 60.0, "linger_s": 60.0})
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / names[0]))
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        endpoint = coordinator.ready()
        hold = Hold(after=int(7.5 * reference.initial.stat().st_size))
        proxy = stack.enter_context(Proxy(endpoint, [hold]))
        made = stack.enter_context(players(tmp_path, only(reference, names), endpoint))
        made |= stack.enter_context(players(tmp_path, only(reference, [other]), proxy.endpoint))
        victim = made[names[0]]
        rounds = reference.settings.rounds
        wait_until((victim.state / "sent.reserve").exists, "the victim to begin", deadline_s=DEADLINE_S)
        wait_until(lambda: recorded(victim, "update") == rounds, "its last update", deadline_s=DEADLINE_S)
        ballast = fill(disk, leave=0)
        proxy.release()
        wait_until(lambda: has_said(victim, "disk.full"), "the victim to say that it waits", deadline_s=DEADLINE_S)
        others = [one for one in made.values() if one is not victim]
        wait_until(lambda: all(one.ended() == 0 for one in others), "the others to end", deadline_s=DEADLINE_S)
        assert victim.ended() is None
        ballast.unlink()
        wait_until(lambda: victim.ended() is not None, "the victim to end", deadline_s=DEADLINE_S)
        assert victim.ended() == 0, victim.log()
        assert coordinator.wait() == 0
        assert final_bits(made) == reference.bits


def test_a_participant_whose_folder_is_moved_away_waits_until_it_is_back(reference: Reference, tmp_path: Path) -> None:
    """Moved when the victim has joined and the last member has not, so that it has all its rounds before it."""
    late, *names = reference.names
    run = coordinator_file(tmp_path, reference, pace={"heartbeat_s": 0.5, "dead_after_s": 60.0})
    with ExitStack() as stack:
        coordinator = stack.enter_context(served(run, log=tmp_path / "coordinator.log"))
        endpoint = coordinator.ready()
        made = stack.enter_context(players(tmp_path, only(reference, names), endpoint))
        victim, elsewhere = made[names[0]], tmp_path / "elsewhere"
        wait_until(lambda: (victim.state / "state" / "current").exists(), "the victim to join", deadline_s=DEADLINE_S)
        victim.state.rename(elsewhere)
        made |= stack.enter_context(players(tmp_path, only(reference, [late]), endpoint))
        wait_until(
            lambda: has_said(victim, "state.moved"), "the victim to say that it waits", deadline_s=DEADLINE_S,
            evidence=lambda: "\n".join(file.read_text() for file in tmp_path.glob("*.log")),
        )  # fmt: skip
        assert victim.ended() is None
        assert not victim.state.exists()
        elsewhere.rename(victim.state)
        wait_until(lambda: all(one.ended() == 0 for one in made.values()), "the run to end", deadline_s=DEADLINE_S)
        assert coordinator.wait() == 0
        assert final_bits(made) == reference.bits


def told(folder: Path) -> list[facts.Fact]:
    return told_facts(folder / "run")
