"""Claims about who is there: a member that never comes, one that dies, one that comes late, and no barrier at all.

Real processes on both sides. What happened is read from the run's journal, the way the status command reads it.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.decisions import facts
from tests.support.cohorts import BOTH_SIZES, MODELS, run_command, small_run, wait_until
from tests.support.players import Player, Reference, final_bits, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.proxy import Proxy, Swallow
from tests.support.run_files import coordinator_file, has_finite_model, only, told_facts
from tests.support.whole_runs import run_to_its_end

DEADLINE_S = 300.0


@pytest.fixture(scope="module", params=BOTH_SIZES)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    settings = small_run("fedap", model=MODELS[request.param])
    return run_reference(tmp_path_factory.mktemp("inline"), settings)


def updates_of(told: Sequence[facts.Fact]) -> list[str]:
    """Whose updates were accepted, in order."""
    return [fact.member for fact in told if isinstance(fact, facts.UpdateAccepted)]


def require_good_end(made: Mapping[str, Player], coordinator: ServeProcess) -> None:
    wait_until(lambda: all(one.ended() is not None for one in made.values()), "the run to end", deadline_s=DEADLINE_S)
    assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
    wait_until(lambda: coordinator.child.poll() is not None, "the coordinator to end", deadline_s=DEADLINE_S)
    assert coordinator.wait() == 0
    assert all(has_finite_model(one.personal) for one in made.values())


def test_who_is_listed_and_never_comes_changes_no_bit_for_the_others(reference: Reference, tmp_path: Path) -> None:
    """Enrolment ends without it once the three others are there: the run is the inline one of three clients."""
    members = {"names": [*reference.names, "nobody"], "at_least": len(reference.names), "enrolment_s": 0.0}
    run = coordinator_file(tmp_path, reference, pace={"quorum": len(reference.names)}, members=members)
    made = run_to_its_end(tmp_path, reference, run)
    assert all(has_finite_model(one.personal) for one in made.values())
    assert final_bits(made) == reference.bits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pace", "reason"),
    [({"dead_after_s": 4.0}, "absent"), ({"dead_after_s": 12.0, "deadline_s": 1.0}, "the deadline has passed")],
    ids=["found dead", "past the deadline"],
)
def test_a_member_that_dies_does_not_stop_the_others(
    reference: Reference, tmp_path: Path, pace: dict[str, object], reason: str
) -> None:
    """Its line goes dead after the welcome and the anchor have passed, before three rounds can have; then it is killed.

    All of its traffic in a whole run is nine models: two before the first round, two for each of three rounds, one at
    the end. After four and a half it has sent one update at the most, or is receiving or sending its second.
    """
    run = coordinator_file(tmp_path, reference, pace={"quorum": 2, "linger_s": 5.0, **pace})
    coordinator = ServeProcess("serve", "--config", str(run), log=tmp_path / "coordinator.log")
    *living, dying = reference.names
    swallow = Swallow(after=int(4.5 * reference.initial.stat().st_size), newcomers=1000)
    try:
        endpoint = coordinator.ready()
        with (
            Proxy(endpoint, [swallow]) as proxy,
            players(tmp_path, only(reference, [dying]), proxy.endpoint) as lost,
            players(tmp_path, only(reference, living), endpoint) as made,
        ):
            wait_until(proxy.injected.is_set, "the line to go dead", deadline_s=DEADLINE_S)
            lost[dying].kill()
            require_good_end(made, coordinator)
    finally:
        coordinator.close()
    told = told_facts(tmp_path / "run")
    closed = [fact for fact in told if isinstance(fact, facts.RoundClosed)]
    assert [fact.round_no for fact in closed] == [0, 1, 2]
    assert closed[-1].missing == (dying,)
    assert any(reason in fact.reason for fact in closed)
    assert [fact.absent for fact in told if isinstance(fact, facts.Ended)] == [(dying,)]
    assert not lost[dying].personal.exists()


def test_who_leaves_after_its_report_and_comes_back_before_the_round_closes_changes_no_bit(
    reference: Reference, tmp_path: Path
) -> None:
    """The round cannot close without it, and waits for another who is stopped meanwhile."""
    pace = {"quorum": len(reference.names), "dead_after_s": DEADLINE_S}
    run = coordinator_file(tmp_path, reference, pace=pace)
    coordinator = ServeProcess("serve", "--config", str(run), log=tmp_path / "coordinator.log")
    leaver, slow, *_ = reference.names

    def count(kind: type[facts.Left | facts.Joined]) -> int:
        return sum(isinstance(fact, kind) and fact.member == leaver for fact in told_facts(tmp_path / "run"))

    try:
        with players(tmp_path, reference, coordinator.ready()) as made:
            wait_until(lambda: _reported(tmp_path / "run") is not None, "the first round", deadline_s=DEADLINE_S)
            made[slow].kill(signal.SIGSTOP)
            others = set(reference.names) - {slow}
            wait_until(lambda: _reported(tmp_path / "run") == others, "their reports", deadline_s=DEADLINE_S)
            made[leaver].kill(signal.SIGTERM)
            wait_until(lambda: count(facts.Left) == 1, "it to leave", deadline_s=DEADLINE_S)
            made[leaver].start()
            wait_until(lambda: count(facts.Joined) == 2, "it to come back", deadline_s=DEADLINE_S)
            made[slow].kill(signal.SIGCONT)
            require_good_end(made, coordinator)
            assert final_bits(made) == reference.bits
    finally:
        coordinator.close()


def _reported(folder: Path) -> set[str] | None:
    """Who has reported in the round that was opened last; None before the first."""
    found: set[str] | None = None
    for fact in told_facts(folder):
        if isinstance(fact, facts.RoundOpened):
            found = set()
        elif isinstance(fact, facts.UpdateAccepted) and found is not None:
            found.add(fact.member)
    return found


def test_without_barriers_all_end_with_a_model_after_as_many_updates(reference: Reference, tmp_path: Path) -> None:
    """Three rounds of three members: nine updates are admitted, whoever they came from, and all of them are mixed. Who
    is at work then is told to finish; its report is not wanted any more."""
    run = coordinator_file(tmp_path, reference, mode="continuous")
    made = run_to_its_end(tmp_path, reference, run)
    assert all(has_finite_model(one.personal) for one in made.values())
    told = told_facts(tmp_path / "run")
    (closing,) = [index for index, fact in enumerate(told) if isinstance(fact, facts.RoundClosed)]
    assert len(updates_of(told[:closing])) == len(updates_of(told)) == 9
    shown = run_command(main, "status", str(tmp_path / "run"))
    assert shown.code == 0
    assert "Run whole: finished, 9 updates were admitted, 3 per member" in shown.out
