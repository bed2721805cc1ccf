"""Claims about a run whose rounds wait for everyone: from enrolment to the last goodbye, and who is waited for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator.decisions import facts
from coordinator.decisions.actions import Aggregate, Collect, Persist, SendOrder, Source, Stop
from coordinator.decisions.events import StopRequested
from fedap_core.strategies import Evidence, Measure, Phase, make_strategy
from protocol.messages import Step
from tests.support.machines import (
    SAMPLES,
    Bench,
    find,
    hello,
    open_members,
    orders,
    pace,
    rules_for,
    strategy_weights,
    validation,
    welcomes,
)


def test_first_round_starts_when_the_minimum_is_there_and_the_window_is_over() -> None:
    bench = Bench(rules_for(members=open_members(2, enrolment_s=10.0)))
    bench.join("b", "a")
    assert bench.stage == "enrolling"
    bench.keep_alive("a", "b", at=4.0)
    bench.keep_alive("a", "b", at=8.0)
    said = orders(bench.tick(10.0))
    assert bench.stage == "training"
    assert {name: (order.kind, order.round_no) for name, order in said.items()} == {
        "a": ("train", 0),
        "b": ("train", 0),
    }
    assert all(order.weights is not None and order.weights.source is Source.INITIAL for order in said.values())


def test_listed_members_are_waited_for_by_name() -> None:
    members = open_members(1, allowed=(("key-a", "a"), ("key-b", "b")), enrolment_s=math.inf)
    bench = Bench(rules_for(members=members))
    bench.greet("a", hello("whoever"), identity="key-a")
    assert "b missing" in bench.machine.waiting_for(1.0).reason
    bench.greet("b", hello("b"), identity="key-b")
    assert bench.stage == "training"
    assert set(bench.machine.state.members) == {"a", "b"}


def test_full_attendance_mixes_by_the_strategys_own_weights_bit_for_bit() -> None:
    """Members report in any order; rows and columns are sorted by name."""
    bench = Bench(rules_for("fedap", members=open_members(3)))
    bench.join("c", "a", "b")
    for name in ("b", "c", "a"):
        bench.stats(name, 0)
    mixed = find(bench.updates(0, "c", "b", "a"), Aggregate)
    weights = strategy_weights(bench.rules.strategy, "abc", [SAMPLES] * 3)
    assert [row.member for row in mixed[0].receivers] == ["a", "b", "c"]
    assert [(blob.member, blob.round_no) for blob in mixed[0].givers] == [("a", 0), ("b", 0), ("c", 0)]
    assert mixed[0].weights.tobytes() == weights.tobytes()


def test_statistics_are_asked_for_before_the_first_round_and_weigh_it() -> None:
    bench = Bench(rules_for("fedap"))
    said = orders(bench.join("a", "b", "c"))
    assert {order.kind for order in said.values()} == {"anchor"}
    assert said["a"].measure is Measure.BN_INPUTS
    assert said["a"].weights is None
    bench.stats("a", 0)
    bench.stats("b", 0)
    assert bench.stage == "measuring"
    assert orders(bench.stats("c", 0)).keys() == {"a", "b", "c"}
    assert bench.facts(facts.Weighed)[0].members == ("a", "b", "c")


def test_everybody_is_told_its_row_of_w_with_the_last_model_and_how_like_others_it_is() -> None:
    bench = Bench(rules_for("fedap", rounds=1))
    bench.join("a", "b", "c")
    for name in "abc":
        bench.stats(name, 0)
    said = orders(bench.updates(0, "a", "b", "c"))
    state = bench.machine.state
    assert state.weighed is not None
    for place, name in enumerate("abc"):
        row = dict(zip("abc", state.weighed[place].tolist(), strict=True))
        assert dict(said[name].mixed_from) == row
        assert [weight for _, weight in said[name].mixed_from] == sorted(row.values(), reverse=True)
        assert said[name].similarity == state.similarity.get(name)


def test_a_whole_run_ends_with_everybodys_last_weights_and_goodbye() -> None:
    bench = Bench(rules_for(rounds=2))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    said = orders(bench.updates(1, "a", "b", "c"))
    assert {(order.kind, order.round_no, order.reason) for order in said.values()} == {("finish", 2, "rounds")}
    assert said["b"].weights is not None
    assert said["b"].weights.row is not None
    assert (said["b"].weights.row.member, said["b"].weights.row.round_no) == ("b", 2)
    assert find(bench.goodbye("a") + bench.goodbye("b"), Stop) == []
    assert find(bench.goodbye("c"), Stop) == [Stop(aborted=False, sentence="all 2 rounds are done")]
    assert bench.machine.next_deadline() is None


def test_round_closes_at_its_deadline_with_whoever_reported() -> None:
    """FedBN by counts, equal samples: each of a and b is worth 1/2; c, without an update of its own, gets the same."""
    bench = Bench(rules_for(paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    assert find(bench.run_until(9.9), Aggregate) == []
    mixed = find(bench.run_until(10.0), Aggregate)
    assert [blob.member for blob in mixed[0].givers] == ["a", "b"]
    assert [row.member for row in mixed[0].receivers] == ["a", "b", "c"]
    np.testing.assert_allclose(mixed[0].weights, np.full((3, 2), 0.5))
    assert bench.facts(facts.RoundClosed)[0].missing == ("c",)


def test_a_round_without_its_quorum_waits_beyond_its_deadline() -> None:
    bench = Bench(rules_for(paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    bench.update("a", 0)
    bench.run_until(50.0)
    assert bench.stage == "training"
    assert bench.machine.waiting_for(50.0).reason == (
        "1 updates from 3 members after 50 s, quorum 2: waiting for b, c, deadline passed"
    )
    bench.update("b", 0)
    assert bench.machine.state.round_no == 1


def test_a_straggler_is_not_interrupted_and_its_late_update_is_answered_at_once() -> None:
    """c reports round 0 while round 1 is open. Its mix: c's own update and the latest of a and b, one each by counts;
    a and b are fresh for the last closed round, so nobody is discounted: 1/3 each."""
    bench = Bench(rules_for(rounds=5, paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    said = orders(bench.run_until(10.0))
    assert said.keys() == {"a", "b"}
    actions = bench.update("c", 0)
    (mixed,) = find(actions, Aggregate)
    assert [(row.member, row.round_no, row.alone) for row in mixed.receivers] == [("c", 1, True)]
    assert [(blob.member, blob.round_no) for blob in mixed.givers] == [("a", 0), ("b", 0), ("c", 0)]
    np.testing.assert_allclose(mixed.weights, [[1 / 3, 1 / 3, 1 / 3]])
    assert orders(actions)["c"].round_no == 1


def test_a_missing_members_last_update_counts_less_with_age() -> None:
    """Round 1 closes without c, whose update is one round old: worth 2 ** -0.5. Row a: (1, 1, 0.7071) / 2.7071."""
    bench = Bench(rules_for(rounds=5, paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.updates(1, "a", "b")
    (mixed,) = find(bench.run_until(10.0), Aggregate)
    assert [(blob.member, blob.round_no) for blob in mixed.givers] == [("a", 1), ("b", 1), ("c", 0)]
    worth = np.array([1.0, 1.0, 2**-0.5])
    np.testing.assert_allclose(mixed.weights[0], worth / worth.sum())
    np.testing.assert_allclose(mixed.weights[2], [0.5, 0.5, 0.0])


def test_old_updates_are_left_out_when_the_rule_is_to_drop_them() -> None:
    bench = Bench(rules_for(rounds=5, paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0, age_exponent=math.inf)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.updates(1, "a", "b")
    (mixed,) = find(bench.run_until(10.0), Aggregate)
    assert [blob.member for blob in mixed.givers] == ["a", "b"]


def test_a_dead_member_is_not_waited_for_and_finds_its_order_when_it_returns() -> None:
    bench = Bench(rules_for(rounds=3, paced=pace(quorum=2)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.keep_alive("a", "b", at=4.0)
    assert bench.stage == "training"
    bench.run_until(5.0)
    assert bench.facts(facts.Lost) == [facts.Lost(member="c", silent_s=5.0)]
    assert bench.machine.state.round_no == 1
    actions = bench.join("c", run="run-1")
    assert not welcomes(actions)[0].initial
    assert orders(actions)["c"].round_no == 1
    assert bench.facts(facts.Returned)[0].member == "c"


def test_an_hour_of_training_is_not_death_while_heartbeats_come() -> None:
    bench = Bench(rules_for(members=open_members(1)))
    bench.join("a")
    for second in range(0, 3600, 4):
        bench.keep_alive("a", at=float(second))
    assert bench.facts(facts.Lost) == []


def test_schedule_of_f_fedap_is_fedbn_then_measured_then_mixed_by_the_measurement() -> None:
    """R = 4: round 0 is FedBN's; round 1 measures and is mixed by W already; rounds 2 and 3 by the same W."""
    bench = Bench(rules_for("f-fedap", rounds=4))
    said = [orders(bench.join("a", "b", "c"))["a"]]
    mixes = []
    for round_no in range(4):
        actions = bench.updates(round_no, "a", "b", "c")
        mixes += find(actions, Aggregate)
        said.append(orders(actions)["a"])
    assert [(one.phase, one.measure) for one in said[:-1]] == [
        ("fedbn", Measure.NONE),
        (Phase.MIXED, Measure.RUNNING),
        (Phase.MIXED, Measure.NONE),
        (Phase.MIXED, Measure.NONE),
    ]
    by_counts = make_strategy("fedbn").mixing(Evidence(counts=(SAMPLES,) * 3)).weights
    by_stats = strategy_weights(bench.rules.strategy, "abc", [SAMPLES] * 3)
    assert [mix.weights.tobytes() for mix in mixes] == [by_counts.tobytes()] + [by_stats.tobytes()] * 3
    assert len(bench.facts(facts.Weighed)) == 1


def test_member_that_missed_the_measuring_round_listens_by_counts_and_is_measured_next() -> None:
    """R = 6: round 2 measures. c misses it, so round 3 asks c for its statistics, and c alone."""
    bench = Bench(rules_for("f-fedap", rounds=6, paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    for round_no in (0, 1):
        bench.updates(round_no, "a", "b", "c")
    bench.updates(2, "a", "b")
    bench.run_until(10.0)
    assert bench.machine.state.members["c"].order is not None
    assert bench.machine.state.members["c"].order.measure is Measure.RUNNING
    assert bench.machine.state.members["a"].order is not None
    assert bench.machine.state.members["a"].order.measure is Measure.NONE
    bench.update("c", 2)
    bench.updates(3, "a", "b", "c")
    assert [fact.members for fact in bench.facts(facts.Weighed)] == [("a", "b"), ("a", "b", "c")]


def test_warm_up_makes_an_anchor_then_everybody_measures_and_starts_from_the_initial_model() -> None:
    bench = Bench(rules_for("fedap", rounds=4, warmup_rounds=2))
    said = orders(bench.join("a", "b", "c"))
    assert said["a"].phase is Phase.WARMUP
    first = find(bench.updates(0, "a", "b", "c"), Aggregate)
    assert first[0].phase is Phase.WARMUP
    said = orders(bench.updates(1, "a", "b", "c"))
    assert {(one.kind, one.round_no) for one in said.values()} == {("anchor", 2)}
    weights = said["c"].weights
    assert weights is not None
    assert weights.source is Source.ANCHOR
    assert weights.row is not None
    assert (weights.row.member, weights.row.round_no) == ("a", 2)
    for name in "abc":
        said = orders(bench.stats(name, 2))
    assert {(one.step, one.phase) for one in said.values()} == {(Step(kind="train", round_no=2), Phase.MIXED)}
    assert {one.weights.source for one in said.values() if one.weights} == {Source.INITIAL}
    bench.updates(2, "a", "b", "c")
    assert {one.kind for one in orders(bench.updates(3, "a", "b", "c")).values()} == {"finish"}


def test_late_warm_up_update_is_of_no_use_afterwards_and_its_sender_continues_to_measure() -> None:
    rules = rules_for("fedap", rounds=4, warmup_rounds=1, paced=pace(quorum=2, deadline_s=10.0, dead_after_s=100.0))
    bench = Bench(rules)
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    assert orders(bench.run_until(10.0)).keys() == {"a", "b"}
    actions = bench.update("c", 0)
    assert bench.machine.state.members["c"].update_round is None
    assert orders(actions)["c"].kind == "anchor"


def test_convergence_ends_a_run_only_with_validation_scores() -> None:
    """Timeouts 2, accuracies 0.5, 0.6, 0.6, 0.55: the best of the last two, 0.6, is not above the best before."""
    for scores, last in ((True, "converged"), (False, None)):
        bench = Bench(rules_for(rounds=50, members=open_members(2), paced=pace(patience=2)))
        bench.join("a", "b")
        for round_no, correct in enumerate((50, 60, 60, 55)):
            for name in "ab":
                bench.update(name, round_no, scores=validation(correct) if scores else ())
        found = [fact.reason for fact in bench.facts(facts.Finished)]
        assert found == ([last] if last else [])


def test_stop_request_finishes_the_round_and_tells_everybody() -> None:
    bench = Bench(rules_for(rounds=10))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.do(StopRequested())
    assert bench.stage == "training"
    said = orders(bench.update("c", 0))
    assert {(one.kind, one.reason) for one in said.values()} == {("finish", "requested")}
    assert said["a"].weights is not None


def test_second_stop_request_ends_at_once_with_what_was_delivered_last() -> None:
    bench = Bench(rules_for(rounds=10))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b", "c")
    bench.do(StopRequested())
    said = orders(bench.do(StopRequested()))
    assert {(one.kind, one.reason, one.round_no) for one in said.values()} == {("finish", "aborted", 2)}
    assert said["a"].weights is not None
    assert said["a"].weights.row is not None
    assert said["a"].weights.row.round_no == 1
    stops = [find(bench.goodbye(name), Stop) for name in "abc"]
    assert stops[-1][0].aborted


def test_stop_request_before_training_ends_without_weights() -> None:
    bench = Bench(rules_for("fedap"))
    bench.join("a", "b", "c")
    said = orders(bench.do(StopRequested()))
    assert {(one.kind, one.weights) for one in said.values()} == {("finish", None)}


def test_every_fact_is_durable_before_the_order_that_follows_from_it() -> None:
    bench = Bench(rules_for(members=open_members(1)))
    actions = bench.join("a")
    kinds = [type(action) for action in actions]
    assert kinds.index(SendOrder) > max(index for index, kind in enumerate(kinds) if kind is Persist)


def test_useless_blobs_are_collected_and_useful_ones_kept() -> None:
    bench = Bench(rules_for("fedap", rounds=9))
    bench.join("a", "b", "c")
    for name in "abc":
        bench.stats(name, 0)
    for round_no in range(3):
        actions = bench.updates(round_no, "a", "b", "c")
    kept = find(actions, Collect)[-1]
    assert {(blob.kind, blob.round_no) for blob in kept.blobs} == {("stats", 0), ("update", 2)}
    assert {row.round_no for row in kept.rows} == {3}


def test_run_is_given_up_when_its_quorum_stays_away() -> None:
    bench = Bench(rules_for(paced=pace(quorum=3, deadline_s=10.0, give_up_s=20.0, dead_after_s=100.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.run_until(29.0)
    assert bench.stage == "training"
    said = orders(bench.run_until(30.0))
    assert bench.stage == "aborted"
    assert {one.reason for one in said.values()} == {"aborted"}
    assert "quorum 3" in bench.facts(facts.Finished)[0].sentence


def test_end_waits_a_while_for_members_that_are_away() -> None:
    bench = Bench(rules_for(rounds=1, paced=pace(quorum=2, linger_s=60.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.keep_alive("a", "b", at=4.0)
    bench.run_until(5.0)
    assert find(bench.goodbye("a") + bench.goodbye("b"), Stop) == []
    said = orders(bench.join("c", run="run-1"))
    assert said["c"].kind == "finish"
    assert find(bench.goodbye("c"), Stop) != []


def test_end_does_not_wait_for_ever_for_members_that_are_away() -> None:
    bench = Bench(rules_for(rounds=1, paced=pace(quorum=2, linger_s=60.0)))
    bench.join("a", "b", "c")
    bench.updates(0, "a", "b")
    bench.keep_alive("a", "b", at=4.0)
    bench.run_until(5.0)
    bench.goodbye("a")
    bench.goodbye("b")
    assert find(bench.run_until(64.9), Stop) == []
    assert find(bench.run_until(65.0), Stop) != []
    assert bench.facts(facts.Ended) == [facts.Ended(absent=("c",))]


@pytest.mark.parametrize("algorithm", ["base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap"])
def test_every_algorithm_runs_to_its_end(algorithm: str) -> None:
    bench = Bench(rules_for(algorithm, rounds=3))
    bench.join("a", "b", "c")
    if bench.stage == "measuring":
        for name in "abc":
            bench.stats(name, 0)
    for round_no in range(3):
        bench.updates(round_no, "a", "b", "c")
    for name in "abc":
        bench.goodbye(name)
    assert bench.machine.state.ended
    assert bench.facts(facts.Finished)[0].reason == "rounds"


def test_what_is_lost_is_sent_again_after_being_wanted_twice() -> None:
    bench = Bench(rules_for(members=open_members(1)))
    bench.join("a")
    want = Step(kind="train", round_no=0)
    assert orders(bench.beat("a", want=want)) == {}
    assert orders(bench.beat("a", want=want))["a"].round_no == 0
