"""Claims about when it is time to go on; every answer is a sentence with numbers."""

from __future__ import annotations

import math

import pytest

from coordinator.decisions import quorum
from coordinator.decisions.events import PeerFaulted
from coordinator.decisions.rules import MemberRules, PaceRules, Rules
from coordinator.decisions.stages import Stage
from coordinator.decisions.state import Member, State, Status
from fedap_core.errors import InvalidInput
from protocol.messages import Step
from tests.support.machines import Bench, open_members, pace, rules_for


def members(**rounds: int | None) -> dict[str, Member]:
    """Members by name, with the round of the update they gave, or None."""
    made = {}
    for name, round_no in sorted(rounds.items()):
        one = Member(name=name, identity=name, train_samples=100, test_samples=10, update_round=round_no)
        one.answered = Step(kind="update", round_no=round_no) if round_no is not None else None
        made[name] = one
    return made


def training(**rounds: int | None) -> State:
    found = members(**rounds)
    return State(stage=Stage.TRAINING, members=found, round_members=tuple(sorted(found)), round_no=3, opened_at=100.0)


def rules(**paced: object) -> Rules:
    return rules_for(paced=pace(**paced))


def test_everyone_present_is_enough_at_any_time() -> None:
    verdict = quorum.round_closing(training(a=3, b=3), rules(quorum=2), 100.0)
    assert verdict.ready
    assert verdict.reason == "2 updates from 2 members after 0 s, quorum 2: all present members have answered"


def test_update_of_another_round_does_not_count() -> None:
    verdict = quorum.round_closing(training(a=3, b=2), rules(quorum=2, deadline_s=60.0), 130.0)
    assert not verdict.ready
    assert verdict.reason == "1 updates from 2 members after 30 s, quorum 2: waiting for b, deadline in 30 s"


def test_deadline_closes_with_the_quorum_and_not_without() -> None:
    state = training(a=3, b=3, c=None)
    assert not quorum.round_closing(state, rules(quorum=2, deadline_s=60.0), 159.9).ready
    assert quorum.round_closing(state, rules(quorum=2, deadline_s=60.0), 160.0).ready
    assert not quorum.round_closing(state, rules(quorum=3, deadline_s=60.0), 9999.0).ready


def test_lost_members_are_not_waited_for_but_named() -> None:
    state = training(a=3, b=3, c=None)
    state.members["c"].status = Status.LOST
    verdict = quorum.round_closing(state, rules(quorum=2), 101.0)
    assert verdict.ready
    assert "c absent" in verdict.reason


def test_nobody_there_to_answer_is_stuck_and_without_leavers_hopeless() -> None:
    state = training(a=3, b=None)
    state.members["b"].answered = Step(kind="update", round_no=3)  # refused
    verdict = quorum.round_closing(state, rules(quorum=2), 101.0)
    assert (verdict.ready, verdict.stuck, verdict.hopeless) == (False, True, True)
    state.members["z"] = Member(name="z", identity="z", train_samples=1, test_samples=1, status=Status.LEFT)
    assert not quorum.round_closing(state, rules(quorum=2), 101.0).hopeless


def test_many_names_are_counted() -> None:
    state = training(**dict.fromkeys("abcdefgh"))
    assert "waiting for a, b, c, d, e and 3 more" in quorum.round_closing(state, rules(), 101.0).reason


def excluded(bench: Bench, name: str) -> None:
    for _ in range(3):
        fault = PeerFaulted(connection=bench.peers[name].connection, code="bad-header", reason="garbage")
        bench.do(fault)
    assert bench.machine.state.members[name].status is Status.EXCLUDED


def test_enrolment_does_not_wait_for_a_listed_member_that_was_excluded() -> None:
    listed = (("a", "a"), ("b", "b"), ("c", "c"))
    bench = Bench(rules_for(members=open_members(2, allowed=listed, enrolment_s=math.inf)))
    bench.join("a", "c")
    waits = bench.machine.waiting_for(bench.now).reason
    assert waits == "2 members are present, b missing, the run starts when all are present"
    excluded(bench, "c")
    assert bench.stage == "enrolling"
    bench.join("b")
    assert bench.stage == "training"


def test_enrolment_ends_when_an_exclusion_leaves_too_few_to_come() -> None:
    listed = (("a", "a"), ("b", "b"))
    bench = Bench(rules_for(members=open_members(2, allowed=listed, enrolment_s=math.inf)))
    bench.join("a")
    excluded(bench, "a")
    assert bench.stage == "aborted"
    assert bench.machine.state.sentence == "1 of at least 2 members can join: a excluded"


def test_measuring_counts_statistics_and_a_report_of_training_is_none() -> None:
    state = training(a=None, b=None)
    state.stage = Stage.MEASURING
    verdict = quorum.measuring(state, rules(), 101.0)
    assert verdict.reason == "0 sets of statistics from 2 members after 1 s, quorum 1: waiting for a, b"


def test_having_measured_is_not_having_trained() -> None:
    """Round 3 was measured for; its training is still awaited."""
    state = training(a=None)
    state.members["a"].answered = Step(kind="stats", round_no=3)
    assert not quorum.round_closing(state, rules(), 101.0).ready


def test_enrolment_says_how_many_are_missing() -> None:
    state = State(members=members(a=None), opened_at=0.0)
    verdict = quorum.enrolment(state, rules_for(members=open_members(3)), 7.0)
    assert (verdict.ready, verdict.reason) == (False, "1 of at least 3 members are present after 7 s")
    window = rules_for(members=open_members(1, enrolment_s=10.0))
    assert quorum.enrolment(state, window, 7.0).reason == "1 members are present, enrolment is open for another 3 s"
    assert quorum.enrolment(state, window, 10.0).ready


def test_silence_is_reported_in_numbers() -> None:
    state = training(a=None)
    state.accepted = 7
    assert quorum.silence(state, 160.0).reason == "7 updates, 1 members present, none has reported for 60 s"


@pytest.mark.parametrize(
    ("field", "made"),
    [
        ("at_least", lambda: MemberRules(at_least=3, at_most=2, enrolment_s=0.0)),
        ("members.enrolment_s", lambda: MemberRules(at_least=3)),
        ("list of members", lambda: MemberRules(at_least=1, allowed=(("k", "a"), ("k", "b")))),
        ("min_samples, strikes", lambda: MemberRules(at_least=1, enrolment_s=0.0, strikes=0)),
        ("heartbeat_s", lambda: PaceRules(heartbeat_s=0.0)),
        ("dead_after_s", lambda: PaceRules(heartbeat_s=10.0, dead_after_s=19.0)),
        ("deadline_s", lambda: PaceRules(deadline_s=math.nan)),
        ("quorum, patience", lambda: PaceRules(quorum=0)),
        ("rounds", lambda: rules_for(rounds=0)),
        ("warmup_rounds", lambda: rules_for("fedap", rounds=2, warmup_rounds=2)),
        ("warmup_rounds", lambda: rules_for("fedbn", rounds=2, warmup_rounds=1)),
    ],
)
def test_rules_that_cannot_work_are_refused_by_name(field: str, made: object) -> None:
    assert callable(made)
    with pytest.raises(InvalidInput) as refused:
        made()
    assert refused.value.field == field
