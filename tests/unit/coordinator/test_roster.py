"""Claims about who is connected: one newest connection each, and orders that are asked for twice."""

from __future__ import annotations

from coordinator.decisions.actions import Order
from coordinator.decisions.roster import Roster
from coordinator.decisions.state import Member
from protocol.messages import Heartbeat, Step


def beat(*, have: Step | None = None, want: Step | None = None) -> Heartbeat:
    return Heartbeat(run="run-1", round_no=0, have=have, want=want)


def test_newest_connection_replaces_the_earlier_one() -> None:
    roster = Roster()
    assert roster.connect("a", "c1", 0.0) is None
    assert roster.connect("a", "c2", 1.0) == "c1"
    assert roster.member_of("c1") is None
    assert roster.member_of("c2") == "a"
    assert roster.faults() == []


def test_a_connection_that_says_hello_under_another_name_is_no_longer_the_first_ones() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    roster.connect("b", "c1", 1.0)
    link = roster.link("a")
    assert link is not None
    assert link.connection is None
    assert roster.member_of("c1") == "b"
    assert roster.faults() == []


def test_released_connection_leaves_the_member_and_its_last_sign_of_life() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    roster.received("c1", 7.0)
    assert roster.release("c1") == "a"
    assert roster.received("c1", 9.0) is None
    link = roster.link("a")
    assert link is not None
    assert link.received_at == 7.0


def test_dropped_member_is_unknown() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    assert roster.drop("a") == "c1"
    assert (roster.link("a"), roster.member_of("c1"), roster.drop("a")) == (None, None, None)


def test_restart_gives_everybody_time_to_come_back() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    roster.restart(["a", "b"], 50.0)
    links = [roster.link(name) for name in "ab"]
    assert [(link.received_at, link.connection) for link in links if link] == [(50.0, None), (50.0, None)]


def test_waiting_for_training_is_waiting_for_the_order_to_measure_before_it() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    link = roster.link("a")
    assert link is not None
    link.offer(Order(kind="anchor", round_no=2, weights=None))
    want = beat(have=Step(kind="train", round_no=1), want=Step(kind="train", round_no=2))
    assert roster.beat("a", want) is None
    assert roster.beat("a", want) == Step(kind="anchor", round_no=2)
    assert roster.beat("a", beat(want=Step(kind="train", round_no=3))) is None


def test_member_is_busy_from_being_told_until_it_was_judged() -> None:
    roster = Roster()
    roster.connect("a", "c1", 0.0)
    link = roster.link("a")
    assert link is not None
    member = Member(name="a", identity="a", train_samples=1, test_samples=1)
    assert not link.is_busy(member)
    link.sent_order = Order(kind="train", round_no=1, weights=None)
    assert link.is_busy(member)
    member.answered = Step(kind="stats", round_no=1)
    assert link.is_busy(member)
    member.answered = Step(kind="update", round_no=1)
    assert not link.is_busy(member)
