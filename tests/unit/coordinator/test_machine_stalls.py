"""Claims about members that are there and do not report: how long a round and the end of a run wait for them."""

from __future__ import annotations

from coordinator.decisions import facts
from coordinator.decisions.actions import Stop
from tests.support.machines import Bench, find, pace, rules_for


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
