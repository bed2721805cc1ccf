"""Claims about members that are there and do not report: how long a round and the end of a run wait for them."""

from __future__ import annotations

from coordinator.decisions import events, facts
from coordinator.decisions.actions import Stop
from protocol.messages import Step
from tests.support.machines import Bench, find, open_members, orders, pace, rules_for


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


def test_a_round_that_lost_its_quorum_goes_on_when_the_leaver_is_back_though_it_measures_first() -> None:
    bench = Bench(rules_for("fedap", rounds=3, paced=pace(quorum=3, dead_after_s=1000.0)))
    bench.join("a", "b", "c")
    for name in "abc":
        bench.stats(name, 0)
    bench.updates(0, "a", "b", "c")
    bench.updates(1, "b", "c")
    bench.do(events.LeaveArrived(connection=bench.peers["a"].connection, reason="for a while"))
    said = orders(bench.join("a"))
    assert (said["a"].kind, said["a"].round_no) == ("anchor", 1)
    said = orders(bench.stats("a", 1))
    assert (said["a"].kind, said["a"].round_no) == ("train", 1)
    bench.update("a", 1)
    assert bench.stage == "training"
    assert [fact.reported for fact in bench.facts(facts.RoundClosed)] == [("a", "b", "c")] * 2


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
