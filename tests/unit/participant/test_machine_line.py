"""Claims about the participant's line as its machine leads it: greeting, pauses, silence, refusals, giving up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from participant.decisions.actions import (
    CloseLine,
    End,
    Log,
    OpenLine,
    StopWork,
)
from participant.decisions.events import (
    LeaveRequested,
    LineLost,
    LineOpened,
    PayloadMoved,
    Reported,
)
from participant.decisions.steps import Activity
from protocol.messages import (
    Error,
    Hello,
    HelloRequired,
    Leave,
    Reject,
)
from tests.unit.participant.agents import (
    TIMEOUTS,
    WEIGHTS,
    Agent,
    beat,
    finish,
    goodbye,
    member,
    prepared,
    train,
    update,
)
from tests.unit.protocol.samples import HELLO, RUN, WELCOME


def test_first_action_connects_and_the_first_message_is_a_hello() -> None:
    agent = Agent()
    assert agent.actions == [OpenLine()]
    agent.on(LineOpened())
    assert agent.sent() == [HELLO]
    assert agent.machine.phase is Activity.GREETING


def test_unanswered_hello_is_sent_again_and_then_a_fresh_line_is_tried() -> None:
    """answer_s is 2: again at 2 and 4; at 3 * 2 = 6 the line counts as dead."""
    agent = Agent()
    agent.on(LineOpened())
    assert agent.at(1.9) == []
    for now in (2.0, 4.0):
        agent.at(now)
        assert [message.KIND for message in agent.sent()] == ["hello"]
    assert CloseLine() in agent.at(6.0)
    assert agent.machine.phase is Activity.OFFLINE


def test_pauses_double_up_to_the_cap_with_seeded_jitter() -> None:
    """Pauses 1, 2, 4, 8, 8 seconds, each times a factor of at least a half and at most one."""
    pauses: list[list[float]] = []
    for _ in range(2):
        agent, waits = Agent(), []
        for _ in range(5):
            agent.on(LineLost(reason="cut"))
            deadline = agent.machine.next_deadline()
            assert deadline is not None
            waits.append(deadline - agent.now)
            assert agent.at(deadline) == [OpenLine()]
        pauses.append(waits)
    assert pauses[0] == pauses[1]
    assert all(full / 2 <= wait <= full for full, wait in zip((1, 2, 4, 8, 8), pauses[0], strict=True))
    assert len({wait / full for full, wait in zip((1, 2, 4, 8, 8), pauses[0], strict=True)}) == 5


def test_training_continues_while_the_line_is_down_and_its_report_is_sent_on_return() -> None:
    agent = member()
    agent.receive(train(0))
    actions = agent.on(LineLost(reason="cut"))
    assert not any(isinstance(action, StopWork) for action in actions)
    assert agent.machine.phase is Activity.OFFLINE
    agent.on(Reported(report=update(0)))
    assert agent.sent() == []
    agent.at(2.0)
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, initial=None))
    assert agent.sent() == [update(0)]


def test_silence_of_a_few_heartbeats_means_a_fresh_line() -> None:
    """heartbeat_s 1 and three beats of silence: dead at 3, unless something is heard."""
    agent = member()
    agent.now = 2.0
    agent.receive(beat())
    agent.at(4.9)
    assert CloseLine() not in agent.actions
    for _ in range(2):  # the heartbeat due may come first
        agent.at(5.0)
        if CloseLine() in agent.actions:
            break
    assert CloseLine() in agent.actions


def test_hello_required_is_answered_by_hello_with_the_run_that_is_held() -> None:
    agent = member()
    agent.receive(HelloRequired())
    assert agent.sent() == [replace(HELLO, run=RUN)]
    assert agent.machine.phase is Activity.GREETING


def test_welcome_without_a_model_for_a_run_not_held_is_answered_by_a_hello_as_a_stranger() -> None:
    agent = Agent(run="another-run")
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, initial=None))
    (sent,) = agent.sent()
    assert isinstance(sent, Hello)
    assert sent.run is None


def test_counts_of_another_split_are_told_by_a_new_hello() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, initial=WEIGHTS))
    agent.on(replace(prepared(), train_samples=7))
    assert agent.sent() == [replace(HELLO, run=RUN, train_samples=7)]


def test_unconfirmed_goodbye_ends_after_the_farewell_time() -> None:
    agent = member()
    agent.receive(finish(1))
    agent.on(Reported(report=goodbye(1)))
    agent.on(LineLost(reason="gone"))
    actions = agent.at(10.0)
    assert isinstance(actions[-1], End)
    assert actions[-1].code == 0


@pytest.mark.parametrize("run_is_done", [True, False])
def test_run_over_is_success_only_for_one_who_finished(run_is_done: bool) -> None:
    agent = Agent(run=RUN)
    agent.on(LineOpened())
    if run_is_done:
        agent.receive(replace(WELCOME, round_no=1, initial=None))
        agent.on(prepared(goodbye(1)))
        agent.on(LineLost(reason="gone"))
        agent.on(LineOpened())
    actions = agent.receive(Reject(code="run-over", reason="it is over"))
    assert isinstance(actions[-1], End)
    assert actions[-1].code == (0 if run_is_done else 2)


def test_refusal_ends_with_both_values_in_its_sentence() -> None:
    agent = Agent()
    agent.on(LineOpened())
    actions = agent.receive(Reject(code="wrong-classes", reason="differ", ours="a", yours="b"))
    assert isinstance(actions[-1], End)
    assert (actions[-1].code, actions[-1].reason) == (
        2, "refused, wrong-classes: differ (coordinator: a, this participant: b)",
    )  # fmt: skip
    assert agent.receive(beat()) == []


def test_taken_name_is_tried_again_by_one_who_comes_back_only() -> None:
    for run, ends in ((RUN, False), (None, True)):
        agent = Agent(run=run)
        agent.on(LineOpened())
        actions = agent.receive(Reject(code="name-taken", reason="taken"))
        assert any(isinstance(action, End) for action in actions) is ends


def test_gives_up_only_as_configured() -> None:
    patient, hasty = Agent(), Agent(replace(TIMEOUTS, give_up_s=5.0))
    for agent in (patient, hasty):
        agent.on(LineLost(reason="nobody"))
    assert not any(isinstance(action, End) for action in patient.at(1e6))
    actions = hasty.at(5.0)
    assert isinstance(actions[-1], End)
    assert actions[-1].code == 1


def test_a_coordinator_whose_initial_model_is_on_its_way_is_not_given_up() -> None:
    """give_up_s is 5: slices at 4 and 8 move the end to 13."""
    agent = Agent(replace(TIMEOUTS, give_up_s=5.0))
    agent.on(LineOpened())
    for now in (4.0, 8.0):
        agent.now = now
        agent.on(PayloadMoved())
    assert not any(isinstance(action, End) for action in agent.at(12.9))
    assert any(isinstance(action, End) for action in agent.at(13.0))


def test_stop_request_stops_work_leaves_and_ends() -> None:
    agent = member()
    agent.receive(train(0))
    actions = agent.on(LeaveRequested(reason="SIGTERM", code=143))
    assert actions[0] == StopWork()
    assert agent.sent() == [Leave(run=RUN, reason="SIGTERM")]
    assert actions[-1] == End(code=143, reason="SIGTERM")


def in_use(wait_s: float | None) -> Reject:
    return Reject(code="name-in-use", reason="another process has it", wait_s=wait_s)


def test_name_in_use_is_waited_for_while_its_holder_stays_silent() -> None:
    """A holder that was heard 1 s ago and is dead after 5: free in 4 s, and each refusal until then says so."""
    agent = Agent()
    agent.on(LineOpened())
    while agent.now < 4.0:
        actions = agent.receive(in_use(4.0 - agent.now))
        assert not any(isinstance(action, End) for action in actions)
        deadline = agent.machine.next_deadline()
        assert deadline is not None
        assert agent.at(deadline) == [OpenLine()]
        agent.on(LineOpened())
    assert agent.now < 4.2
    agent.receive(replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS))
    assert agent.machine.phase == "training"


def test_name_in_use_by_a_live_process_ends_with_its_sentence() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.receive(in_use(4.0))
    agent.at(2.0)
    agent.on(LineOpened())
    assert agent.receive(in_use(4.5))[-1] == End(code=2, reason="refused, name-in-use: another process has it")


def test_a_copied_state_ends_after_a_few_lines_and_a_contested_name_continues() -> None:
    agent = member()
    (note,) = agent.receive(Error(code="name-in-use", reason="somebody else said hello", about=None))
    assert isinstance(note, Log)
    assert (note.name, note.warn) == ("name.contested", True)
    for _ in range(2):
        agent.receive(HelloRequired())
        assert not any(isinstance(action, End) for action in agent.receive(in_use(None)))
        agent.on(LineOpened())
    assert agent.receive(in_use(None))[-1] == End(code=2, reason="refused, name-in-use: another process has it")
