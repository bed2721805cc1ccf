"""Claims about what people and networks do to a run: who is let in, who comes and goes, who misbehaves, and crashes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator.decisions import facts
from coordinator.decisions.actions import Aggregate, Discard, Forget, Inspect, Note, Source, Stop, Weigh
from coordinator.decisions.events import (
    AllowListChanged,
    Inspected,
    LeaveArrived,
    MixingDone,
    PeerFaulted,
    PeerLost,
    StorageFree,
    StorageLow,
    Tick,
    UpdateArrived,
    WeighingDone,
    WorkFailed,
)
from protocol.messages import Error, Heartbeat, Reject, Step
from tests.support.machines import (
    MODEL,
    Bench,
    find,
    hello,
    messages,
    open_members,
    orders,
    pace,
    rules_for,
    strategy_weights,
    welcomes,
)


def trained(algorithm: str = "fedbn", *names: str, rounds: int = 9, **paced: object) -> Bench:
    """A bench whose members are in round 0 of training."""
    names = names or ("a", "b", "c")
    bench = Bench(rules_for(algorithm, rounds=rounds, members=open_members(len(names)), paced=pace(**paced)))
    bench.join(*names)
    if bench.stage == "measuring":
        for name in names:
            bench.stats(name, 0)
    return bench


def rejection(bench: Bench, name: str, **changes: object) -> Reject:
    message = replace(hello(name), **changes)  # type: ignore[arg-type]
    (sent,) = messages(bench.greet(name, message), "reject")
    assert isinstance(sent.message, Reject)
    return sent.message


@pytest.mark.parametrize(
    ("field", "value", "code", "ours"),
    [
        ("model_layout", "dd" * 16, "wrong-layout", MODEL.model_layout),
        ("classes", "dd" * 16, "wrong-classes", MODEL.classes),
        ("input_shape", (3, 8, 8), "wrong-input-shape", "1x8x8"),
        ("preprocessing", "dd" * 16, "wrong-preprocessing", MODEL.preprocessing),
        ("train_samples", 31, "too-few-samples", "at least 32"),
    ],
)
def test_hello_that_does_not_fit_is_refused_with_both_values(field: str, value: object, code: str, ours: str) -> None:
    refused = rejection(Bench(rules_for()), "a", **{field: value})
    assert (refused.code, refused.ours) == (code, ours)
    assert refused.yours


def test_unlisted_key_is_refused_and_a_listed_one_gets_the_lists_name() -> None:
    bench = Bench(rules_for(members=open_members(1, allowed=(("key-a", "a"),))))
    (refused,) = messages(bench.greet("a", hello("a"), identity="key-x"), "reject")
    assert isinstance(refused.message, Reject)
    assert refused.message.code == "unknown-key"
    assert welcomes(bench.greet("a", hello("impostor"), identity="key-a"))[0].member == "a"


def test_a_name_belongs_to_the_key_that_took_it_first() -> None:
    bench = Bench(rules_for())
    bench.greet("a", hello("a"), identity="key-1")
    (refused,) = messages(bench.greet("a", hello("a"), identity="key-2"), "reject")
    assert isinstance(refused.message, Reject)
    assert refused.message.code == "name-taken"


def test_full_run_refuses_and_a_run_without_late_members_too() -> None:
    bench = Bench(rules_for(members=open_members(1, at_most=1)))
    bench.join("a")
    assert rejection(bench, "b").code == "full"
    bench = Bench(rules_for(members=open_members(1, late_join=False)))
    bench.join("a")
    assert rejection(bench, "b").code == "full"


def test_newest_connection_is_the_members_and_the_earlier_one_is_forgotten() -> None:
    bench = trained()
    earlier = bench.peers["a"].connection
    actions = bench.join("a", run="run-1")
    assert find(actions, Forget) == [Forget(connection=earlier)]
    stale = UpdateArrived(connection=earlier, round_no=0, steps=1, train_loss=None, scores=(), measured=False)
    assert len(messages(bench.do(stale), "hello-required")) == 1
    assert bench.machine.state.members["a"].update_round is None


def test_welcome_brings_the_initial_model_to_newcomers_only() -> None:
    bench = trained()
    assert welcomes(bench.join("a", run="run-1"))[0].initial is False
    assert welcomes(bench.join("a"))[0].initial is True
    assert welcomes(bench.join("a", run="another-run"))[0].initial is True


def test_newcomer_enters_at_the_next_round_with_a_mix_of_the_others() -> None:
    """FedBN by counts: d has no update of its own, so the three others are worth 1/3 each to it; and nothing of d goes
    into anybody's model before it has trained."""
    bench = trained()
    actions = bench.join("d")
    assert welcomes(actions)[0].round_no == 1
    assert orders(actions) == {}
    actions = bench.updates(0, "a", "b", "c")
    (mixed,) = find(actions, Aggregate)
    assert [row.member for row in mixed.receivers] == ["a", "b", "c", "d"]
    assert [blob.member for blob in mixed.givers] == ["a", "b", "c"]
    np.testing.assert_allclose(mixed.weights[3], [1 / 3] * 3)
    assert orders(actions)["d"].round_no == 1
    bench.updates(1, "a", "b", "c")
    assert bench.machine.state.round_no == 1
    bench.update("d", 1)
    assert bench.machine.state.round_no == 2


def test_newcomer_of_fedap_measures_first_and_changes_w() -> None:
    bench = trained("fedap")
    said = orders(bench.join("d"))
    assert (said["d"].kind, said["d"].round_no) == ("anchor", 1)
    actions = bench.stats("d", 1)
    assert [weigh.members for weigh in find(actions, Weigh)] == [("a", "b", "c", "d")]
    bench.updates(0, "a", "b", "c")
    (mixed,) = find(bench.updates(1, "a", "b", "c", "d"), Aggregate)
    expected = strategy_weights(bench.rules.strategy, "abcd", [100] * 4)
    assert mixed.weights.tobytes() == expected.tobytes()


def test_newcomer_that_has_not_measured_in_time_enters_later() -> None:
    bench = trained("fedap")
    bench.join("d")
    (mixed,) = find(bench.updates(0, "a", "b", "c"), Aggregate)
    assert [row.member for row in mixed.receivers] == ["a", "b", "c"]
    bench.stats("d", 1)
    (mixed,) = find(bench.updates(1, "a", "b", "c"), Aggregate)
    assert [row.member for row in mixed.receivers] == ["a", "b", "c", "d"]


def test_leaver_is_not_waited_for_and_w_is_computed_without_it() -> None:
    bench = trained("fedap")
    bench.updates(0, "a", "b")
    bench.update("c", 0)
    actions = bench.do(LeaveArrived(connection=bench.peers["c"].connection, reason="maintenance"))
    assert [weigh.members for weigh in find(actions, Weigh)] == [("a", "b")]
    (mixed,) = find(bench.updates(1, "a", "b"), Aggregate)
    assert [blob.member for blob in mixed.givers] == ["a", "b"]
    assert mixed.weights.tobytes() == strategy_weights(bench.rules.strategy, "ab", [100] * 2).tobytes()


def test_round_whose_members_all_left_continues_with_a_newcomer() -> None:
    bench = trained("fedbn", "a")
    bench.do(LeaveArrived(connection=bench.peers["a"].connection, reason="maintenance"))
    said = orders(bench.join("b"))
    assert said["b"].round_no == 0
    bench.update("b", 0)
    assert bench.machine.state.round_no == 1


def test_refused_update_counts_as_absent_and_is_answered_with_its_code() -> None:
    bench = trained()
    bench.bad["c", "update", 0] = "not-finite"
    bench.updates(0, "a", "b")
    actions = bench.update("c", 0)
    (error,) = messages(actions, "error")
    assert isinstance(error.message, Error)
    assert (error.message.code, error.message.about) == ("not-finite", Step(kind="update", round_no=0))
    (mixed,) = find(actions, Aggregate)
    assert [blob.member for blob in mixed.givers] == ["a", "b"]
    assert orders(actions)["c"].round_no == 1
    assert find(actions, Discard) == [Discard(member="c", kind="update", round_no=0)]


def test_a_refused_report_is_judged_once() -> None:
    bench = trained()
    bench.bad["c", "update", 0] = "not-finite"
    bench.update("c", 0)
    actions = bench.update("c", 0)
    assert find(actions, Inspect) == []
    assert bench.machine.state.members["c"].strikes == 1


def test_repeated_offender_is_quarantined_and_the_round_continues_without_it() -> None:
    bench = trained("fedap")
    for round_no in range(3):
        bench.bad["c", "update", round_no] = "out-of-range"
        bench.updates(round_no, "a", "b")
        actions = bench.update("c", round_no)
    assert [message.message.KIND for message in messages(actions, "reject")] == ["reject"]
    (mixed,) = find(actions, Aggregate)
    assert [row.member for row in mixed.receivers] == ["a", "b"]
    assert mixed.weights.tobytes() == strategy_weights(bench.rules.strategy, "ab", [100] * 2).tobytes()
    assert rejection(bench, "c").code == "quarantined"


def test_faults_of_the_protocol_are_strikes_too() -> None:
    bench = trained()
    for _ in range(3):
        bench.do(PeerFaulted(connection=bench.peers["b"].connection, code="bad-field", reason="nonsense"))
    assert bench.facts(facts.Quarantined)[0].member == "b"


def test_statistics_that_are_refused_keep_a_member_out_until_better_ones_come() -> None:
    bench = Bench(rules_for("fedap", rounds=9))
    bench.bad["c", "stats", 0] = "bad-statistics"
    bench.join("a", "b", "c")
    for name in "abc":
        bench.stats(name, 0)
    assert bench.machine.state.round_members == ("a", "b")
    assert (bench.peers["c"].order and bench.peers["c"].order.step) == Step(kind="anchor", round_no=1)
    bench.stats("c", 1)
    assert orders(bench.updates(0, "a", "b"))["c"].kind == "train"


def test_run_in_which_everybody_was_refused_is_aborted_with_the_numbers() -> None:
    bench = trained()
    for name in "abc":
        bench.bad[name, "update", 0] = "not-finite"
    bench.updates(0, "a", "b", "c")
    assert bench.stage == "aborted"
    assert "0 updates from 3 members" in bench.facts(facts.Finished)[0].sentence


def test_update_far_beyond_the_median_step_of_a_round_is_refused() -> None:
    """Distances 1, 2, 3, 4, 5 in round 0: median 3, so 30 is the limit in round 1."""
    names = ("a", "b", "c", "d", "e")
    bench = trained("fedbn", *names)
    for place, name in enumerate(names):
        bench.distances[name, 0] = place + 1.0
    bench.updates(0, *names)
    bench.distances["a", 1], bench.distances["b", 1] = 30.0, 30.1
    assert find(bench.update("a", 1), Inspect)[0].limit == pytest.approx(30.0)
    bench.update("b", 1)
    assert bench.machine.state.members["a"].update_round == 1
    assert bench.facts(facts.Refused)[0].code == "too-far"


def test_repeats_change_nothing() -> None:
    bench = trained()
    bench.update("a", 0)
    digest = bench.machine.digest()
    actions = bench.update("a", 0)
    assert [type(action) for action in actions] == [Discard, Note]
    assert bench.machine.digest() == digest


def test_full_disk_pauses_the_run_and_its_deadlines() -> None:
    """Round 0 opened at 0 with 10 s; paused from 2 to 102, so its deadline is at 110."""
    bench = trained(quorum=2, deadline_s=10.0, dead_after_s=1000.0)
    bench.updates(0, "a", "b")
    bench.do(StorageLow(free_bytes=10, needed_bytes=99), 2.0)
    (error,) = messages(bench.update("c", 0), "error")
    assert isinstance(error.message, Error)
    assert error.message.code == "no-space"
    bench.run_until(100.0)
    assert bench.stage == "training"
    bench.do(StorageFree(free_bytes=999), 102.0)
    bench.run_until(109.9)
    assert bench.machine.state.round_no == 0
    bench.run_until(110.0)
    assert bench.machine.state.round_no == 1


def test_heartbeats_say_what_is_there_and_what_is_waited_for() -> None:
    bench = trained()
    bench.update("a", 0)
    sent = {send.member: send.message for send in messages(bench.run_until(1.0), "heartbeat")}
    assert sent["a"] == Heartbeat(run="run-1", round_no=0, have=Step(kind="update", round_no=0), want=None)
    assert sent["b"] == Heartbeat(run="run-1", round_no=0, have=None, want=Step(kind="update", round_no=0))


def test_a_lost_connection_is_not_a_death() -> None:
    bench = trained()
    bench.do(PeerLost(connection=bench.peers["a"].connection))
    bench.do(Tick(), 4.9)
    assert bench.facts(facts.Lost) == []
    assert orders(bench.join("a", run="run-1"))["a"].round_no == 0


def test_key_taken_off_the_list_excludes_its_member() -> None:
    allowed = (("key-a", "a"), ("key-b", "b"))
    bench = Bench(rules_for(members=open_members(2, allowed=allowed)))
    bench.greet("a", hello("a"), identity="key-a")
    bench.greet("b", hello("b"), identity="key-b")
    actions = bench.do(AllowListChanged(allowed=allowed[:1]))
    assert [send.member for send in messages(actions, "reject")] == ["b"]
    bench.update("a", 0)
    assert bench.machine.state.round_no == 1


def test_work_that_fails_aborts_the_run_with_its_reason() -> None:
    bench = Bench(rules_for(members=open_members(1)), auto=False)
    bench.join("a")
    bench.update("a", 0)
    bench.finish_work()
    (mixing,) = bench.work
    assert isinstance(mixing, Aggregate)
    bench.do(WorkFailed(ticket=mixing.ticket, reason="a blob is broken"))
    assert (bench.stage, bench.machine.state.sentence) == ("aborted", "a blob is broken")


def test_crash_at_any_fact_resumes_what_was_interrupted() -> None:
    """After every single event of a run the process dies; participants say hello again and repeat what is wanted."""
    bench = Bench(rules_for("f-fedap", rounds=4))
    names = ("a", "b", "c")
    bench.join(*names)
    for round_no in range(4):
        for name in names:
            bench.update(name, round_no)
            bench.crash()
            bench.join(*names, run="run-1")
    stops = []
    for name in names:
        stops += find(bench.goodbye(name), Stop)
    assert [fact.round_no for fact in bench.facts(facts.RoundClosed)] == [0, 1, 2, 3]
    assert len(stops) == 1


def test_crash_while_mixing_mixes_again_from_the_same_recipe() -> None:
    bench = Bench(rules_for("fedap", members=open_members(2)), auto=False)
    bench.join("a", "b")
    while bench.work:
        bench.finish_work()
    for name in "ab":
        bench.stats(name, 0)
    while bench.work:
        bench.finish_work()
    bench.updates(0, "a", "b")
    bench.finish_work()
    (mixing,) = find(bench.finish_work(), Aggregate)
    (again,) = find(bench.crash(), Aggregate)
    assert (again.receivers, again.givers) == (mixing.receivers, mixing.givers)
    assert again.weights.tobytes() == mixing.weights.tobytes()


def test_mix_that_cannot_be_made_again_after_a_crash_gives_way_to_the_start() -> None:
    """d was promised a mix of a's update. The process died over it, and a has left: d starts from the initial model."""
    bench = Bench(rules_for(rounds=9, continuous=True, members=open_members(1)), auto=False)
    bench.join("a")
    bench.update("a", 0)
    bench.finish_work()
    bench.join("d")
    bench.crash()
    bench.join("a", run="run-1")
    bench.do(LeaveArrived(connection=bench.peers["a"].connection, reason="maintenance"))
    bench.crash()
    said = orders(bench.join("d", run="run-1"))
    weights = said["d"].weights
    assert weights is not None
    assert weights.source is Source.INITIAL


def test_mixing_that_fails_at_the_end_keeps_nobody_from_finishing() -> None:
    bench = Bench(rules_for(rounds=1, members=open_members(1)), auto=False)
    bench.join("a")
    bench.update("a", 0)
    bench.finish_work()
    (mixing,) = bench.work
    assert isinstance(mixing, Aggregate)
    actions = bench.do(WorkFailed(ticket=mixing.ticket, reason="a blob is broken"))
    assert orders(actions)["a"].kind == "finish"
    assert find(bench.goodbye("a"), Stop)[0].aborted


def test_work_of_another_life_means_nothing() -> None:
    bench = Bench(rules_for("fedap", members=open_members(2)), auto=False)
    bench.join("a", "b")
    before = bench.machine.digest()
    bench.do(WorkFailed(ticket=99, reason="old"))
    bench.do(MixingDone(ticket=99))
    bench.do(WeighingDone(ticket=99, weights=((1.0,),)))
    bench.do(Inspected(member="a", kind="stats", round_no=0, code=None, reason="", distance=None))
    assert bench.machine.digest() == before
