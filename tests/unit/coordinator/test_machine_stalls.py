"""Claims about members that are there and do not report: how long a round and the end of a run wait for them."""

from __future__ import annotations

import pytest

from coordinator.decisions import events, facts
from coordinator.decisions.actions import Aggregate, Note, Stop
from protocol.messages import Step
from tests.support.machines import Bench, find, hello, open_members, orders, pace, rules_for


def test_a_member_that_is_there_and_never_reports_costs_the_run_one_wait() -> None:
    bench = Bench(rules_for(rounds=4, paced=pace(quorum=2, stalled_after_s=100.0, dead_after_s=1000.0, linger_s=1.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.run_until(99.0)
    assert bench.facts(facts.RoundClosed) == []
    bench.run_until(100.0)
    assert [fact.missing for fact in bench.facts(facts.RoundClosed)] == [("c",)]
    bench.crash()
    bench.join("a", "b", "c", run="run-1")
    bench.updates(1, "a", "b")
    assert len(bench.facts(facts.RoundClosed)) == 2, "the second round waited for it, too"
    bench.update("c", 0)
    bench.updates(2, "a", "b")
    assert len(bench.facts(facts.RoundClosed)) == 2, "it has reported, and is waited for again"
    bench.update("c", 2)
    assert len(bench.facts(facts.RoundClosed)) == 3


def test_end_waits_for_a_member_that_is_there_until_it_counts_as_stalled() -> None:
    bench = Bench(rules_for(rounds=1, paced=pace(linger_s=5.0, stalled_after_s=100.0, dead_after_s=1000.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.goodbye("a")
    bench.goodbye("b")
    assert find(bench.run_until(99.0), Stop) == []
    assert find(bench.run_until(100.0), Stop) != []
    assert bench.facts(facts.Ended) == [facts.Ended(absent=("c",))]


def test_a_finished_run_says_once_for_which_absent_member_it_waits_and_how_long() -> None:
    """c is silent from the first round on; a and b have their last model at 22 s, 2 s after the run has finished, so
    that 58 of 60 s are left."""
    bench = Bench(rules_for(rounds=1, paced=pace(quorum=1, linger_s=60.0, dead_after_s=20.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.keep_alive("a", "b", at=19.0)
    bench.run_until(20.0)
    assert bench.stage == "finished"
    assert bench.machine.waiting_for(20.0).reason.startswith("waiting for a, b and c (absent) to fetch the last model")
    bench.run_until(22.0)
    bench.goodbye("a")
    notes = find(bench.goodbye("b"), Note)
    reason = "waiting for c (absent) to fetch the last model, for at most another 58 s"
    assert [(note.event, dict(note.details)["reason"]) for note in notes] == [("run.lingers", reason)]
    assert find(bench.run_until(79.0), Note) == []
    assert find(bench.run_until(80.0), Stop) != []


def needing_all(algorithm: str) -> Bench:
    """A run that needs all of its three members, in its second round, for which b has reported."""
    bench = Bench(rules_for(algorithm, rounds=3, paced=pace(quorum=3, dead_after_s=1000.0)))
    bench.join("a", "b", "c")
    for name in "abc" if bench.stage == "measuring" else "":
        bench.stats(name, 0)
    bench.updates(0, "a", "b", "c")
    bench.update("b", 1)
    return bench


def leave(bench: Bench, name: str) -> None:
    bench.do(events.LeaveArrived(connection=bench.peers[name].connection, reason="for a while"))


@pytest.mark.parametrize("algorithm", ["fedbn", "fedap"])
@pytest.mark.parametrize("crash", [False, True], ids=["no crash", "crash meanwhile"])
def test_who_leaves_before_its_report_and_comes_back_is_told_the_same_order_again(algorithm: str, crash: bool) -> None:
    bench = needing_all(algorithm)
    order = bench.peers["a"].order
    leave(bench, "a")
    if crash:
        bench.crash()
        bench.join("b", "c", run="run-1")
    assert orders(bench.join("a", run="run-1"))["a"] == order
    bench.updates(1, "a", "c")
    assert [fact.reported for fact in bench.facts(facts.RoundClosed)] == [("a", "b", "c")] * 2


@pytest.mark.parametrize("algorithm", ["fedbn", "fedap"])
@pytest.mark.parametrize("crash", [False, True], ids=["no crash", "crash meanwhile"])
def test_who_leaves_after_its_report_and_comes_back_before_the_round_closes_is_in_it(
    algorithm: str, crash: bool
) -> None:
    bench, quiet = needing_all(algorithm), needing_all(algorithm)
    leave(bench, "b")
    if crash:
        bench.crash()
        bench.join("a", "c", run="run-1")
    assert orders(bench.join("b", run="run-1")) == {}
    bench.update("a", 1)
    quiet.update("a", 1)
    (mixed,), (expected,) = find(bench.update("c", 1), Aggregate), find(quiet.update("c", 1), Aggregate)
    assert (mixed.receivers, mixed.givers) == (expected.receivers, expected.givers)
    assert mixed.weights.tobytes() == expected.weights.tobytes()
    assert bench.facts(facts.Finished) == []


def test_who_comes_back_when_all_others_have_reported_completes_the_round() -> None:
    bench = needing_all("fedap")
    leave(bench, "b")
    bench.updates(1, "a", "c")
    assert bench.facts(facts.Finished) == []
    assert len(find(bench.join("b", run="run-1"), Aggregate)) == 1
    assert bench.stage == "training"


def test_who_comes_back_in_a_later_round_is_a_newcomer() -> None:
    bench = Bench(rules_for(rounds=4, members=open_members(3), paced=pace(quorum=2)))
    bench.join("a", "b", "c")
    leave(bench, "c")
    bench.updates(0, "a", "b")
    bench.join("c", run="run-1")
    assert orders(bench.updates(1, "a", "b"))["c"].round_no == 2
    assert [fact.member for fact in bench.facts(facts.Joined)] == ["a", "b", "c", "c"]


def test_who_leaves_after_it_measured_and_comes_back_has_measured() -> None:
    bench = Bench(rules_for("fedap", rounds=3, paced=pace(quorum=3, dead_after_s=1000.0)))
    bench.join("a", "b", "c")
    bench.stats("b", 0)
    leave(bench, "b")
    bench.join("b", run="run-1")
    bench.stats("a", 0)
    assert orders(bench.stats("c", 0)).keys() == {"a", "b", "c"}


@pytest.mark.parametrize("algorithm", ["fedbn", "fedap"])
def test_a_new_process_of_somebody_who_left_after_its_report_does_the_round_again(algorithm: str) -> None:
    """It has another state folder and nothing of the round."""
    bench = needing_all(algorithm)
    leave(bench, "b")
    said = orders(bench.greet("b", hello("b", life="second")))
    bench.updates(1, "a", "c")
    if algorithm == "fedap":
        assert (said["b"].kind, said["b"].round_no) == ("anchor", 1)
        bench.stats("b", 1)
    bench.update("b", 1)
    assert [fact.reported for fact in bench.facts(facts.RoundClosed)] == [("a", "b", "c")] * 2
    assert bench.facts(facts.Finished) == []


def test_heartbeats_during_the_last_mix_of_a_run_without_barriers_do_not_hold_it() -> None:
    """a and b are rounds beyond the one that everybody started at; the folder is not older than they are by that."""
    bench = Bench(rules_for(rounds=2, continuous=True, members=open_members(2)), auto=False)
    bench.join("a", "b")
    for name, round_no in (("a", 0), ("b", 0), ("a", 1), ("b", 1)):
        bench.update(name, round_no)
        while bench.work and bench.stage == "training":
            bench.finish_work()
    assert bench.stage == "aggregating"
    for name in "ab":
        bench.beat(name, have=Step(kind="train", round_no=2), want=Step(kind="train", round_no=3))
    while bench.work:
        bench.finish_work()
    assert bench.stage == "finished"


def test_round_without_a_quorum_at_its_deadline_continues_with_members_that_measured_too_late_for_it() -> None:
    """Of its members one is alive and never reports; before the deadline nobody else is let in, and then no more than
    are lacking."""
    paced = pace(quorum=3, deadline_s=5.0, dead_after_s=1000.0)
    bench = Bench(rules_for("fedap", rounds=9, members=open_members(5), paced=paced))
    bench.join("a", "b", "c", "d", "e")
    for name in ("a", "b", "d"):
        bench.stats(name, 0)
    bench.run_until(5.0)
    bench.stats("c", 0)
    bench.stats("e", 0)
    bench.updates(0, "a", "b")
    bench.run_until(9.0)
    assert [opened.members for opened in bench.facts(facts.RoundOpened)] == [("a", "b", "d")]
    said = orders(bench.run_until(10.0))
    assert (said["c"].kind, said["c"].round_no) == ("train", 0)
    bench.update("c", 0)
    bench.run_until(15.0)
    opened = [(opened.round_no, opened.members) for opened in bench.facts(facts.RoundOpened)][1:]
    assert opened == [(0, ("a", "b", "c", "d")), (1, ("a", "b", "c", "d", "e"))]
