"""Claims about the silence that a line is allowed: it grows while lines fall silent before they carry anything, and
falls back to what a line needed that did. heartbeat_s is 1 and silence_beats 3, so the least is 3 s; answer_s is 2."""

from __future__ import annotations

from dataclasses import replace

from participant.decisions.actions import CloseLine
from participant.decisions.events import LineLost, LineOpened, PayloadMoved, Reported
from participant.decisions.reconnection import LONGEST_SILENCE
from protocol.messages import Step
from tests.unit.participant.agents import Agent, beat, member, train, update
from tests.unit.protocol.samples import WELCOME

LEAST_S = 3.0


def until_lost(agent: Agent) -> float:
    """How long the line stays open while nothing is heard."""
    began = agent.now
    while CloseLine() not in agent.actions:
        deadline = agent.machine.next_deadline()
        assert deadline is not None
        agent.at(deadline)
    return round(agent.now - began, 6)


def come_back(agent: Agent) -> None:
    """Another line, on which the welcome comes at once."""
    deadline = agent.machine.next_deadline()
    assert deadline is not None
    agent.at(deadline)
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, heartbeat_s=1.0, initial=None))


def silences(agent: Agent, lines: int) -> list[float]:
    found = []
    for _ in range(lines):
        found.append(until_lost(agent))
        come_back(agent)
    return found


def test_each_silent_line_that_carried_nothing_doubles_the_next_ones_silence_up_to_a_limit() -> None:
    assert silences(member(), 6) == [LEAST_S, 2 * LEAST_S, 4 * LEAST_S, 8 * LEAST_S, 8 * LEAST_S, 8 * LEAST_S]
    assert LONGEST_SILENCE == 8


def test_a_line_that_is_cut_says_nothing_about_silence() -> None:
    agent = member()
    for _ in range(3):
        agent.on(LineLost(reason="cut"))
        come_back(agent)
    assert until_lost(agent) == LEAST_S


def test_an_order_that_comes_quickly_restores_the_least_silence() -> None:
    agent = member()
    silences(agent, 2)
    agent.receive(train(0))
    assert until_lost(agent) == LEAST_S
    come_back(agent)
    assert until_lost(agent) == LEAST_S  # the line before had carried an order


def test_a_report_that_is_known_to_have_arrived_restores_it_too() -> None:
    agent = member()
    agent.receive(train(0))
    agent.on(Reported(report=update(0)))
    silences(agent, 3)
    agent.receive(beat(have=Step(kind="update", round_no=0)))
    assert until_lost(agent) == LEAST_S


def test_heartbeats_alone_prove_nothing() -> None:
    agent = member()
    silences(agent, 1)
    agent.receive(beat())
    assert until_lost(agent) == 2 * LEAST_S


def test_a_slow_line_that_carries_an_order_keeps_the_silence_that_it_needed() -> None:
    """Slices 5 s apart need twice the least; a line that was allowed eight times of it is not given more than that."""
    agent = member()
    silences(agent, 3)
    for _ in range(3):
        agent.now += 5.0
        agent.on(PayloadMoved())
    agent.receive(train(0))
    assert until_lost(agent) == 2 * LEAST_S


def test_a_slow_transfer_ends_although_one_slice_takes_longer_than_the_least_silence() -> None:
    """A slice takes 10 s: lines of 3 and 6 s are closed before it is there, one of 12 s brings it."""
    agent, lines = member(), 1
    while True:
        slice_at = agent.now + 10.0
        deadline = agent.machine.next_deadline()
        while deadline is not None and deadline < slice_at and CloseLine() not in agent.actions:
            agent.at(deadline)
            deadline = agent.machine.next_deadline()
        if CloseLine() not in agent.actions:
            break
        come_back(agent)
        lines += 1
    agent.now = slice_at
    agent.on(PayloadMoved())
    assert agent.receive(train(0))
    assert lines == 3


def test_hello_is_not_sent_again_while_its_answer_is_on_its_way() -> None:
    """answer_s is 2. An offer was accepted at 1: its first slice has until 1 + 3 * 2 = 7, heartbeats in between or not;
    then hello is said again, and the next answer has twice as long."""
    agent = Agent()
    agent.on(LineOpened())
    agent.now = 1.0
    agent.on(PayloadMoved())
    for now in (2.0, 4.0, 6.0):
        agent.now = now
        agent.receive(beat())
        assert agent.at(now + 0.9) == []
    agent.at(7.0)
    assert [message.KIND for message in agent.sent()] == ["hello"]
    agent.now = 8.0
    agent.on(PayloadMoved())
    agent.now = 19.0
    agent.receive(beat())
    assert agent.at(19.9) == []
    agent.at(20.0)
    assert [message.KIND for message in agent.sent()] == ["hello"]


def test_a_handshake_that_does_not_end_is_given_twice_as_long_each_time() -> None:
    """answer_s is 2: a connection has 6 s to come about, then 12, 24, 48 and no more."""
    agent, waits = Agent(), []
    for _ in range(5):
        waits.append(until_lost(agent))
        deadline = agent.machine.next_deadline()
        assert deadline is not None
        agent.at(deadline)
    assert waits == [6.0, 12.0, 24.0, 48.0, 48.0]


def test_a_repeated_hello_waits_longer_on_a_line_that_is_allowed_more() -> None:
    """answer_s is 2 and a line on which nobody answers is lost after 6 s; on the next, hello is repeated after 4 s."""
    agent = Agent()
    agent.on(LineOpened())
    assert until_lost(agent) == 6.0
    deadline = agent.machine.next_deadline()
    assert deadline is not None
    agent.at(deadline)
    agent.on(LineOpened())
    began = agent.now
    assert agent.at(began + 3.9) == []
    agent.at(began + 4.0)
    assert [message.KIND for message in agent.sent()] == ["hello"]
    agent.now = began + 4.0
    assert until_lost(agent) == 8.0  # twelve in all
