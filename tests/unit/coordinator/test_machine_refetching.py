"""Claims about reports that our disk lost: when a run goes on by itself, and when it halts because nobody has them."""

from __future__ import annotations

import pytest

from coordinator.decisions.actions import Action, BlobRef, Stop
from coordinator.decisions.events import Started
from protocol.messages import Step
from tests.support.machines import Bench, find, open_members, rules_for

LOST = BlobRef(member="a", kind="update", round_no=0)


def restarted(mode: str) -> Bench:
    """Everybody is told round 1; then a new process comes, which finds a's update of round 0 damaged."""
    bench = Bench(rules_for(rounds=4, members=open_members(3), continuous=mode == "continuous"))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.crash()
    bench.do(Started(missing=(LOST,)))
    bench.join("a", "b", "c", run="run-1")
    return bench


def beat(bench: Bench, name: str, done: int) -> list[Action]:
    """It has carried out `done` and works on nothing."""
    return bench.beat(name, have=Step(kind="train", round_no=done), want=Step(kind="anchor", round_no=done + 1))


def test_members_that_have_trained_on_a_mix_do_not_wait_for_it_while_their_reports_are_on_the_way() -> None:
    bench = restarted("barrier")
    for name in "abc":
        assert not find(beat(bench, name, 1), Stop)
    bench.updates(1, "a", "b", "c")
    assert bench.machine.state.round_no == 2


def test_a_run_halts_when_somebody_waits_for_a_mix_of_a_report_that_its_member_has_replaced() -> None:
    bench = restarted("barrier")
    assert not find(beat(bench, "a", 1), Stop)
    (stop,) = find(beat(bench, "b", 0), Stop)
    assert (stop.halted, stop.lost) == (True, LOST)
    assert "a no longer holds it, and b needs it" in stop.sentence


@pytest.mark.parametrize("mode", ["barrier", "continuous"])
def test_a_report_that_its_member_still_holds_is_only_waited_for(mode: str) -> None:
    bench = restarted(mode)
    for name in "abc":
        assert not find(beat(bench, name, 0), Stop)


def test_without_rounds_a_mix_is_made_of_the_later_report_of_a_member_instead() -> None:
    bench = restarted("continuous")
    assert not find(beat(bench, "a", 1), Stop)
    assert not find(beat(bench, "b", 0), Stop)
    before = bench.machine.state.members["b"].order
    assert before is not None
    bench.update("a", 1)
    bench.beat("b", have=Step(kind="train", round_no=0), want=Step(kind="anchor", round_no=1))
    assert bench.peers["b"].order is not None
    assert bench.peers["b"].order.round_no == before.round_no


def test_a_lost_run_whose_members_were_told_its_end_halts_when_most_have_said_so() -> None:
    bench = Bench(rules_for(rounds=4, members=open_members(3)))
    bench.do(Started(accepts_older=True))
    bench.join("a", "b", run="run-1")
    over = Step(kind="finish", round_no=4)
    assert not find(bench.beat("a", have=over, want=over), Stop)
    (stop,) = find(bench.beat("b", have=over, want=over), Stop)
    assert stop.halted
    assert "told to finish" in stop.obstacle


def test_a_last_mix_whose_giver_has_said_goodbye_is_given_up_only_when_the_operator_agrees() -> None:
    bench = Bench(rules_for(rounds=1, members=open_members(3)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.goodbye("a")
    bench.crash()
    bench.do(Started(missing=(LOST,)))
    bench.join("b", "c", run="run-1")
    (stop,) = find(beat(bench, "b", 0), Stop)
    assert (stop.halted, stop.lost) == (True, LOST)
    bench.crash()
    bench.do(Started(missing=(LOST,), accepts_older=True))
    bench.join("b", "c", run="run-1")
    told = bench.peers["b"].order
    assert told is not None
    assert (told.kind, told.weights) == ("finish", None)
    bench.goodbye("b")
    bench.goodbye("c")
    assert bench.machine.state.ended
