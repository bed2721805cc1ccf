"""Claims about lives that begin when there is nothing left to do, or whose hellos get no usable answer: they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from participant.decisions.actions import Action, End, Prepare
from participant.decisions.events import LineOpened, NotUnderstood, PayloadMoved
from participant.decisions.reconnection import UNREADABLE_ANSWERS
from protocol.messages import Error, Reject, Step
from tests.unit.participant.agents import TIMEOUTS, WEIGHTS, Agent, beat, goodbye, member, prepared
from tests.unit.protocol.samples import RUN, WELCOME

AGAIN = replace(WELCOME, heartbeat_s=1.0, initial=None)


def finished(**timeouts: float) -> Agent:
    """One that was killed after it had saved its goodbye."""
    return Agent(replace(TIMEOUTS, **timeouts), run=RUN, has_finished=True)


def end_of(actions: list[Action]) -> End:
    (end,) = [action for action in actions if isinstance(action, End)]
    return end


def run_until(agent: Agent, now: float) -> list[Action]:
    """Tick from deadline to deadline."""
    actions: list[Action] = []
    while (due := agent.machine.next_deadline()) is not None and due <= now:
        actions += agent.at(due)
    return actions


@pytest.mark.parametrize("give_up_s", [None, 3.0])
def test_a_finished_run_ends_normally_without_a_coordinator(give_up_s: float | None) -> None:
    agent = Agent(replace(TIMEOUTS, give_up_s=give_up_s), run=RUN, has_finished=True)
    end = end_of(run_until(agent, TIMEOUTS.farewell_s))
    assert (end.code, f"run {RUN} is over; its final model is in the state folder" in end.reason) == (0, True)


def test_a_finished_run_ends_normally_when_the_coordinator_reports_its_end() -> None:
    agent = finished()
    agent.on(LineOpened())
    assert end_of(agent.receive(Reject(code="run-over", reason="it is over"))).code == 0


def test_a_coordinator_that_still_waits_for_goodbye_gets_it() -> None:
    agent = finished()
    agent.on(LineOpened())
    agent.receive(AGAIN)
    agent.on(prepared(goodbye(WELCOME.round_no)))
    assert agent.sent() == [goodbye(WELCOME.round_no)]
    assert end_of(agent.receive(beat(have=Step(kind="goodbye", round_no=WELCOME.round_no)))).code == 0


def test_a_goodbye_that_is_not_confirmed_ends_normally() -> None:
    agent = finished()
    agent.on(LineOpened())
    agent.receive(AGAIN)
    agent.on(prepared(goodbye(WELCOME.round_no)))
    assert end_of(run_until(agent, 2 * TIMEOUTS.farewell_s)).code == 0


def test_another_run_at_the_same_address_is_joined_however_long_its_model_takes() -> None:
    agent = finished()
    agent.on(LineOpened())
    for second in range(30):
        agent.now = float(second)
        agent.on(PayloadMoved())
    other = replace(WELCOME, run="second", initial=WEIGHTS)
    assert Prepare(welcome=other) in agent.receive(other)
    agent.on(replace(prepared(), run="second"))
    assert not [action for action in run_until(agent, agent.now + 100.0) if isinstance(action, End)]


def hellos(agent: Agent, answer: str, count: int) -> list[Action]:
    """So many hellos, each answered by two things that cannot be understood."""
    actions: list[Action] = []
    for _ in range(count):
        actions += agent.on(LineOpened())
        for _ in range(2):
            actions += agent.on(NotUnderstood(reason=answer))
    return actions


def test_hellos_without_a_usable_answer_are_not_repeated_for_ever() -> None:
    agent = Agent()
    assert not [one for one in hellos(agent, "no header", UNREADABLE_ANSWERS - 1) if isinstance(one, End)]
    end = end_of(hellos(agent, "no header", 1))
    assert (end.code, end.reason) == (2, "5 hellos in a row got no valid answer: no header")


def test_a_welcome_in_between_makes_up_for_what_was_not_understood() -> None:
    agent = Agent()
    hellos(agent, "no header", UNREADABLE_ANSWERS - 1)
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, initial=WEIGHTS))
    assert agent.on(NotUnderstood(reason="no header")) == []
    assert not [one for one in hellos(agent, "no header", UNREADABLE_ANSWERS - 1) if isinstance(one, End)]


def test_hellos_that_the_coordinator_calls_faulty_end_too_and_haste_is_forgiven() -> None:
    agent = Agent()
    actions: list[Action] = []
    for code in ["rate"] * 10 + ["bad-field"] * UNREADABLE_ANSWERS:
        assert not [one for one in actions if isinstance(one, End)]
        agent.on(LineOpened())
        actions = agent.receive(Error(code=code, reason="so it says", about=None))
    assert end_of(actions).code == 2


def test_members_outlive_any_number_of_faulty_messages() -> None:
    agent = member()
    assert [agent.on(NotUnderstood(reason="no header")) for _ in range(20)] == [[]] * 20
