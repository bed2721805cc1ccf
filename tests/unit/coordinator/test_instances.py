"""Two processes under one name: the one that has it keeps it while it lives; whoever comes after it is told why not."""

from __future__ import annotations

import pytest

from coordinator.decisions import admission, events, facts, instances
from coordinator.decisions.actions import Forget
from coordinator.decisions.roster import CHANGES, CHANGES_S
from coordinator.decisions.state import Status
from coordinator.summaries import _member_lines
from fedap_core.errors import InvalidInput
from protocol.messages import Error, Leave, Reject
from tests.support.machines import (
    RUN,
    Bench,
    find,
    hello,
    instance_of,
    messages,
    open_members,
    pace,
    rules_for,
    welcomes,
)

KEYED = (("key-a", "a"), ("key-b", "b"))
NUMBERS = ("0" * 32, "1" * 32)


def bench_of_two(*, keys: bool = False) -> Bench:
    """a and b train round 0."""
    bench = Bench(rules_for(members=open_members(2, allowed=KEYED) if keys else open_members(2), paced=pace()))
    for name in ("a", "b"):
        bench.greet(name, hello(name), identity=f"key-{name}" if keys else name)
    assert bench.stage == "training"
    return bench


def rival(
    bench: Bench, *, life: str = "other", connection: str = "x#1", identity: str = "a", process: str | None = None
) -> list[object]:
    """Another process says hello as a; what the bench knows as a's connection stays."""
    said = hello("a", life=life, process=process)
    hello_sent = events.HelloArrived(connection=connection, identity=identity, hello=said)
    return list(bench.do(hello_sent))


def refusal(actions: list[object]) -> Reject:
    (sent,) = messages(actions, "reject")  # type: ignore[arg-type]
    assert isinstance(sent.message, Reject)
    return sent.message


@pytest.mark.parametrize("keys", [False, True])
def test_another_process_is_refused_while_the_first_is_alive_and_both_are_informed(keys: bool) -> None:
    bench = bench_of_two(keys=keys)
    bench.keep_alive("a", at=3.0)
    bench.now = 4.0
    actions = rival(bench, identity="key-a" if keys else "a")
    refused = refusal(actions)
    assert (refused.code, refused.wait_s) == ("name-in-use", 4.0)
    assert "for 4 s, last message 1.0 s ago" in refused.reason
    (warned,) = messages(actions, "error")  # type: ignore[arg-type]
    assert isinstance(warned.message, Error)
    assert (warned.connection, warned.message.code) == (bench.peers["a"].connection, "name-in-use")
    assert welcomes(actions) == []  # type: ignore[arg-type]
    assert find(bench.update("a", 0), Forget) == []
    assert bench.machine.state.members["a"].update_round == 0


def test_the_same_process_takes_its_name_over_at_once() -> None:
    bench = bench_of_two()
    bench.now = 0.1
    (welcome,) = welcomes(bench.join("a", run=RUN))
    assert welcome.member == "a"
    assert [fact for fact in bench.facts(facts.Returned) if fact.member == "a"] == []


def test_a_dead_ones_name_goes_to_the_next_process_with_the_same_key() -> None:
    bench = bench_of_two(keys=True)
    for at in (2.0, 4.0, 6.0):
        bench.keep_alive("b", at=at)
        bench.tick(at)
    assert bench.machine.state.members["a"].status is Status.LOST
    assert welcomes(rival(bench, identity="key-a"))[0].member == "a"  # type: ignore[arg-type]
    assert bench.facts(facts.Returned)[-1].instance == instances.digest_of(instance_of("a", "other"))
    first = bench.greet("a", hello("a"), identity="key-a")
    assert refusal(list(first)).code == "name-in-use"


def test_who_has_left_is_in_nobodys_way() -> None:
    bench = bench_of_two()
    bench.do(events.LeaveArrived(connection=bench.peers["a"].connection, reason="bye"))
    assert welcomes(rival(bench))  # type: ignore[arg-type]


def test_a_coordinator_that_starts_again_still_knows_who_had_the_name() -> None:
    bench = bench_of_two()
    bench.now = 4.0
    bench.crash()
    assert refusal(rival(bench)).wait_s == 5.0
    assert welcomes(bench.join("a", run=RUN))


def test_a_crash_and_a_silent_owner_do_not_keep_a_replacement_out_for_ever() -> None:
    bench = bench_of_two()
    bench.now = 4.0
    bench.crash()
    assert refusal(rival(bench))
    bench.run_until(9.5)
    assert welcomes(rival(bench))  # type: ignore[arg-type]


def test_a_copy_of_the_state_folder_does_not_trade_the_name_for_ever() -> None:
    bench = bench_of_two()
    lines = (bench.peers["a"].connection, "copy#1")
    answers = [rival(bench, life="", connection=lines[number % 2]) for number in range(1, 20)]
    first = next(number for number, actions in enumerate(answers) if messages(actions, "reject"))  # type: ignore[arg-type]
    assert first == 2 * instances.TRADES - 1
    refused = refusal(answers[first])
    assert (refused.code, refused.wait_s) == ("name-in-use", None)
    assert "copy" in refused.reason


def test_one_process_is_never_a_copy_however_often_its_connections_are_traded() -> None:
    bench = bench_of_two()
    for number in range(20 * instances.TRADES):
        line = ("first#1", "second#1")[number % 2]
        assert welcomes(rival(bench, life="", connection=line, process=NUMBERS[0]))  # type: ignore[arg-type]


def test_two_processes_with_one_state_are_told_apart_by_their_numbers_and_both_are_informed() -> None:
    """Each comes over a fresh connection every time, so that connections alone would tell nothing."""
    bench = bench_of_two()
    answers = [
        rival(bench, life="", connection=f"x#{number}", process=NUMBERS[number % 2])
        for number in range(2 * instances.TRADES + 1)
    ]
    assert all(welcomes(actions) for actions in answers[:-1])  # type: ignore[arg-type]
    refused = refusal(answers[-1])
    assert (refused.code, refused.wait_s) == ("name-in-use", None)
    assert "copy" in refused.reason
    (warned,) = messages(answers[-1], "error")  # type: ignore[arg-type]
    assert warned.connection == f"x#{2 * instances.TRADES - 1}"
    again = rival(bench, life="", connection="x#99", process=NUMBERS[1])
    assert welcomes(again)  # type: ignore[arg-type]


def test_a_process_that_is_restarted_again_and_again_takes_its_name_over_each_time() -> None:
    bench = bench_of_two()
    for number in range(100):
        assert welcomes(rival(bench, life="", connection=f"x#{number}", process=f"{number:032x}"))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_closed", [False, True])
def test_late_hellos_of_a_dead_process_never_keep_its_successor_out(is_closed: bool) -> None:
    """is_closed: the dead one's connection was known to be gone before its successor came."""
    bench = bench_of_two()
    rival(bench, life="", connection="dead#1", process=NUMBERS[0])
    if is_closed:
        bench.do(events.PeerLost(connection="dead#1"))
    for number in range(4 * instances.TRADES):
        assert welcomes(rival(bench, life="", connection=f"new#{number}", process=NUMBERS[1]))  # type: ignore[arg-type]
        late = rival(bench, life="", connection="dead#2", process=NUMBERS[0])
    assert refusal(late).wait_s is None


def test_a_hello_that_was_under_way_when_its_line_was_given_up_costs_its_sender_nothing() -> None:
    """The line that is in use takes the name back from the one that is not, as often as a hello was said there."""
    bench = bench_of_two()
    bench.join("a", run=RUN)
    used = bench.peers["a"].connection
    for _ in range(3):
        assert welcomes(rival(bench, life="", connection="stale#1"))  # type: ignore[arg-type]
        assert welcomes(rival(bench, life="", connection=used))  # type: ignore[arg-type]
    assert find(bench.update("a", 0), Forget) == []
    assert bench.machine.state.members["a"].update_round == 0


def test_attempts_are_journalled_and_told_rarely_however_often_they_come() -> None:
    bench = bench_of_two()
    told = 0
    for number in range(200):
        bench.keep_alive("a", "b", at=number * 0.1)
        told += len(messages(rival(bench, life=str(number)), "error"))  # type: ignore[arg-type]
    assert told == 1
    assert [fact.attempts for fact in bench.facts(facts.Contested)] == [1]
    for at in range(21, int(instances.CONTESTED_EVERY_S) + 5, 4):
        bench.keep_alive("a", "b", at=float(at))
    rival(bench)
    assert [fact.attempts for fact in bench.facts(facts.Contested)] == [1, 200]
    assert any("201 times" in line for line in _member_lines(bench.machine.state))
    bench.crash()


def test_strangers_garbage_gives_nobody_a_strike() -> None:
    bench = bench_of_two()
    rival(bench)
    for _ in range(20):
        bench.do(events.PeerFaulted(connection="x#1", code="bad-header", reason="garbage"))
    assert bench.machine.state.members["a"].strikes == 0
    said = bench.do(events.LeaveArrived(connection="x#1", reason="as somebody else"))
    assert messages(said, "hello-required")
    assert bench.machine.state.members["a"].status is Status.PRESENT
    assert Leave.KIND == "leave"


def excluded_after_takeover(*, keys: bool) -> Bench:
    """a falls silent, another process takes its name and is excluded for what it says."""
    bench = bench_of_two(keys=keys)
    for at in (2.0, 4.0, 6.0):
        bench.keep_alive("b", at=at)
        bench.tick(at)
    rival(bench, identity="key-a" if keys else "a")
    for _ in range(3):
        bench.do(events.PeerFaulted(connection="x#1", code="bad-header", reason="garbage"))
    assert bench.machine.state.members["a"].status is Status.EXCLUDED
    return bench


def test_without_keys_an_impostors_exclusion_is_not_its_victims() -> None:
    bench = excluded_after_takeover(keys=False)
    assert refusal(rival(bench, connection="x#2")).code == "quarantined"
    assert refusal(rival(bench, life="third", connection="x#3")).code == "quarantined"
    assert welcomes(bench.join("a", run=RUN))
    member = bench.machine.state.members["a"]
    assert (member.status, member.strikes) == (Status.PRESENT, 0)
    bench.crash()


def test_a_key_answers_for_every_process_that_uses_it() -> None:
    bench = excluded_after_takeover(keys=True)
    assert refusal(list(bench.greet("a", hello("a", run=RUN), identity="key-a"))).code == "quarantined"


def test_strikes_are_remembered_of_a_bounded_number_of_processes_and_of_the_first() -> None:
    bench = bench_of_two()
    at = 0.0
    for number in range(30):
        for _ in range(4):
            at += 2.0
            bench.keep_alive("b", at=at)
            bench.tick(at)
        assert welcomes(rival(bench, life=str(number), connection=f"x#{number}"))  # type: ignore[arg-type]
        bench.do(events.PeerFaulted(connection=f"x#{number}", code="bad-header", reason="garbage"))
    member = bench.machine.state.members["a"]
    assert len(member.earlier_strikes) <= instances.REMEMBERED
    assert instances.digest_of(instance_of("a")) in member.earlier_strikes


def test_no_token_is_kept_or_told() -> None:
    bench = bench_of_two()
    actions = rival(bench)
    secrets = [instance_of("a"), instance_of("a", "other")]
    shown = repr(bench.journal) + repr(bench.machine.state) + repr([messages(actions, k) for k in ("reject", "error")])  # type: ignore[arg-type]
    assert not any(secret in shown for secret in secrets)


def test_reporting_new_sample_counts_without_end_does_not_fill_the_journal() -> None:
    bench = bench_of_two()
    for number in range(500):
        assert welcomes(bench.join("a", run=RUN, train_samples=100 + number % 2))
    assert len(bench.facts(facts.Returned)) <= CHANGES
    bench.now += CHANGES_S + 1.0
    bench.join("a", run=RUN, train_samples=77)
    assert bench.machine.state.members["a"].train_samples == 77


def test_leaving_and_coming_without_end_does_not_fill_the_journal() -> None:
    bench = bench_of_two()
    refusals = 0
    for _ in range(100):
        bench.do(events.LeaveArrived(connection=bench.peers["a"].connection, reason="bye"))
        refusals += len(messages(bench.join("a"), "reject"))
    assert len(bench.facts(facts.Joined)) <= 2 + CHANGES
    assert refusals == 100 - CHANGES
    bench.now += CHANGES_S + 1.0
    assert welcomes(bench.join("a"))


def test_names_that_come_and_go_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "NAMES_BEYOND", 10)
    bench = Bench(rules_for(members=open_members(2, at_most=3, enrolment_s=1000.0)))
    for number in range(50):
        name = f"n{number}"
        if welcomes(bench.join(name)):
            bench.do(events.LeaveArrived(connection=bench.peers[name].connection, reason="bye"))
    assert len(bench.machine.state.members) == 13


def test_names_that_differ_in_case_alone_are_one_name() -> None:
    bench = Bench(rules_for(members=open_members(2)))
    bench.join("north")
    (refused,) = messages(bench.join("North"), "reject")
    assert isinstance(refused.message, Reject)
    assert refused.message.code == "name-taken"
    with pytest.raises(InvalidInput, match="every name once"):
        open_members(2, allowed=(("key-1", "north"), ("key-2", "North")))
