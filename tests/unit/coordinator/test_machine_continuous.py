"""Claims about a run without barriers: every report is answered at once, age costs weight, a sum of rounds ends it."""

from __future__ import annotations

import numpy as np

from coordinator.decisions import facts
from coordinator.decisions.actions import Aggregate, Collect, Discard, Source
from coordinator.decisions.events import LeaveArrived, StopRequested
from fedap_core.strategies import Measure
from tests.support.machines import Bench, find, open_members, orders, pace, rules_for, strategy_weights


def started(algorithm: str = "fedbn", *names: str, rounds: int = 3, **options: object) -> Bench:
    names = names or ("a", "b", "c")
    rules = rules_for(
        algorithm, rounds=rounds, continuous=True, members=open_members(len(names)), options=dict(options)
    )
    bench = Bench(rules)
    bench.join(*names)
    if bench.stage == "measuring":
        for name in names:
            bench.stats(name, 0)
    return bench


def weighed(bench: Bench) -> tuple[str, ...]:
    """Whom the last W is over."""
    return bench.facts(facts.Weighed)[-1].members


def test_first_report_keeps_what_nobody_else_can_give() -> None:
    """Nobody else has reported: their two thirds go to the member itself."""
    bench = started()
    actions = bench.update("a", 0)
    (mixed,) = find(actions, Aggregate)
    assert [blob.member for blob in mixed.givers] == ["a"]
    np.testing.assert_allclose(mixed.weights, [[1.0]])
    assert orders(actions)["a"].round_no == 1
    assert bench.machine.state.members["b"].order == bench.peers["b"].order


def test_weight_that_age_takes_away_goes_to_the_member_itself() -> None:
    """a reports twice, then b. For b's mix: a's latest has age 1/2 (b's update came after it; two others), so its third
    is worth 1/3 * 1.5 ** -0.5; c gave nothing yet; b keeps the rest."""
    bench = started()
    bench.update("a", 0)
    bench.update("a", 1)
    (mixed,) = find(bench.update("b", 0), Aggregate)
    assert [(blob.member, blob.round_no) for blob in mixed.givers] == [("a", 1), ("b", 0)]
    taken = 1 / 3 * 1.5**-0.5
    np.testing.assert_allclose(mixed.weights, [[taken, 1 - taken]])


def test_fedap_never_gives_itself_less_than_its_self_weight() -> None:
    bench = started("fedap", self_weight=0.4)
    mixes = []
    for name, round_no in (("a", 0), ("b", 0), ("c", 0), ("a", 1), ("a", 2), ("b", 1)):
        mixes += find(bench.update(name, round_no), Aggregate)
    for mixed in mixes:
        place = [blob.member for blob in mixed.givers].index(mixed.receivers[0].member)
        assert mixed.weights[0, place] >= 0.4 - 1e-12
    full = strategy_weights(bench.rules.strategy, "abc", [100] * 3)
    ages = np.array([2 / 2, 1 / 2])  # when c reported, after a and b
    np.testing.assert_allclose(mixes[2].weights[0, :2], full[2, :2] * (1 + ages) ** -0.5)


def test_no_update_is_admitted_that_the_last_mix_will_not_hold() -> None:
    """Two members, one round: b's second update arrives while the last mix is being made of the first two."""
    bench = started("fedbn", "a", "b", rounds=1)
    bench.update("b", 0)
    bench.auto = False
    bench.update("a", 0)
    bench.update("b", 1)
    assert [type(work).__name__ for work in bench.work] == ["Inspect", "Inspect"]
    bench.finish_work()
    assert bench.stage == "aggregating"
    assert [action.member for action in find(bench.finish_work(), Discard)] == ["b"]
    assert [(fact.member, fact.round_no) for fact in bench.facts(facts.UpdateAccepted)] == [("b", 0), ("a", 0)]
    bench.auto = True
    assert {order.kind for order in orders(bench.finish_work()).values()} == {"finish"}


def test_run_ends_after_rounds_times_members_updates_with_a_last_mix_for_all() -> None:
    """Two members, two rounds: four updates end it, here all but one from a; b's finish follows its own order."""
    bench = started("fedbn", "a", "b", rounds=2)
    bench.update("b", 0)
    for round_no in range(2):
        bench.update("a", round_no)
    assert bench.stage == "training"
    actions = bench.update("a", 2)
    last = find(actions, Aggregate)[-1]
    assert [(row.member, row.round_no) for row in last.receivers] == [("a", 3), ("b", 2)]
    said = orders(actions)
    assert {(order.kind, order.reason) for order in said.values()} == {("finish", "rounds")}
    assert {name: order.round_no for name, order in said.items()} == {"a": 3, "b": 2}


def test_newcomer_starts_at_once_from_the_others() -> None:
    """By counts a and b are worth the same; one update came after a's, of three others: 1.333 ** -0.5 against 1."""
    bench = started()
    bench.update("a", 0)
    bench.update("b", 0)
    actions = bench.join("d")
    (mixed,) = find(actions, Aggregate)
    assert [blob.member for blob in mixed.givers] == ["a", "b"]
    worth = np.array([(1 + 1 / 3) ** -0.5, 1.0])
    np.testing.assert_allclose(mixed.weights[0], worth / worth.sum())
    assert orders(actions)["d"].round_no == 0


def test_newcomer_before_anybody_reported_starts_from_the_initial_model() -> None:
    bench = started()
    weights = orders(bench.join("d"))["d"].weights
    assert weights is not None
    assert weights.source is Source.INITIAL


def test_newcomer_of_fedap_measures_first() -> None:
    bench = started("fedap")
    bench.update("a", 0)
    said = orders(bench.join("d"))
    assert (said["d"].kind, said["d"].measure) == ("anchor", Measure.BN_INPUTS)
    said = orders(bench.stats("d", said["d"].round_no))
    assert said["d"].kind == "train"
    assert bench.machine.state.weighed_members == ("a", "b", "c", "d")


def test_refused_update_is_answered_by_an_order_to_continue_from_the_last_good_one() -> None:
    bench = started()
    bench.update("a", 0)
    bench.bad["a", "update", 1] = "not-finite"
    actions = bench.update("a", 1)
    (mixed,) = find(actions, Aggregate)
    assert [(blob.member, blob.round_no) for blob in mixed.givers] == [("a", 0)]
    assert orders(actions)["a"].round_no == 2
    assert bench.machine.state.accepted == 1


def test_leaver_lowers_the_sum_that_ends_the_run() -> None:
    """Three members, one round: with c gone, two updates are enough."""
    bench = started(rounds=1)
    bench.update("a", 0)
    bench.do(LeaveArrived(connection=bench.peers["c"].connection, reason="maintenance"))
    bench.update("b", 0)
    assert bench.facts(facts.Finished)[0].reason == "rounds"


def test_stop_request_gives_everybody_a_last_mix_at_once() -> None:
    bench = started()
    bench.update("a", 0)
    said = orders(bench.do(StopRequested()))
    assert {(order.kind, order.reason) for order in said.values()} == {("finish", "requested")}
    assert all(order.weights is not None for order in said.values())


def test_only_the_latest_update_of_each_member_is_kept() -> None:
    bench = started(rounds=9)
    for round_no in range(4):
        for name in "abc":
            actions = bench.update(name, round_no)
    kept = find(actions, Collect)[-1]
    assert {(blob.member, blob.round_no) for blob in kept.blobs} == {("a", 3), ("b", 3), ("c", 3)}


def test_crash_makes_the_promised_mixes_again() -> None:
    bench = started()
    bench.update("a", 0)
    bench.update("b", 0)
    again = find(bench.crash(), Aggregate)
    assert [row.member for mix in again for row in mix.receivers] == ["a", "b"]
    assert orders(bench.join("a", run="run-1"))["a"].round_no == 1


def test_f_fedap_measures_at_each_members_own_half_and_weighs_what_it_has() -> None:
    """R = 4: each member's round 1 asks for running statistics."""
    bench = started("f-fedap", rounds=4)
    said = orders(bench.update("a", 0))
    assert said["a"].measure is Measure.RUNNING
    bench.update("a", 1)
    assert weighed(bench) == ("a",)
    bench.update("b", 0)
    bench.update("b", 1)
    assert weighed(bench) == ("a", "b")


def test_silence_beyond_all_patience_aborts() -> None:
    rules = rules_for(
        continuous=True, members=open_members(2), paced=pace(deadline_s=10.0, give_up_s=20.0, dead_after_s=5.0)
    )
    bench = Bench(rules)
    bench.join("a", "b")
    bench.run_until(29.0)
    assert bench.stage == "training"
    bench.run_until(30.0)
    assert bench.stage == "aborted"
