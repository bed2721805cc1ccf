"""Claims about the participant's machine at work: orders, reports, what it has and wants, and how it ends."""

from __future__ import annotations

from dataclasses import replace

from participant.decisions.actions import DropPayload, Emit, End, Log, Prepare, StopWork
from participant.decisions.events import (
    Announced,
    Failed,
    LineOpened,
    Reported,
    Stopped,
)
from participant.decisions.steps import Activity
from protocol.messages import (
    Anchor,
    Error,
    HelloRequired,
    Stats,
    Step,
)
from tests.unit.participant.agents import (
    WEIGHTS,
    Agent,
    beat,
    finish,
    goodbye,
    large_member,
    member,
    prepared,
    train,
    update,
)
from tests.unit.protocol.samples import HELLO, LARGE, RUN, WELCOME


def test_welcome_prepares_and_the_first_heartbeat_wants_whatever_comes_first() -> None:
    agent = Agent()
    agent.on(LineOpened())
    welcome = replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS)
    assert Prepare(welcome=welcome) in agent.receive(welcome)
    agent.at(1.0)
    assert agent.sent() == [beat()], "while it prepares it wants nothing"
    agent.on(prepared())
    agent.at(2.0)
    assert agent.sent() == [beat(want=Step(kind="anchor", round_no=0))]
    assert agent.machine.phase is Activity.IDLE


def test_order_that_comes_while_the_model_is_prepared_is_not_lost() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, initial=WEIGHTS))
    assert agent.receive(train(0)) == []
    agent.on(prepared())
    assert agent.work() == [train(0)]


def test_round_goes_from_order_to_report_to_the_next_want() -> None:
    agent = member()
    agent.receive(train(0))
    assert agent.work() == [train(0)]
    assert agent.machine.phase is Activity.TRAINING
    agent.at(1.0)
    assert agent.sent() == [replace(beat(), round_no=0)], "an order is had when a crash cannot lose it any more"
    agent.on(Reported(report=update(0)))
    assert agent.sent() == [update(0)]
    agent.at(2.0)
    assert agent.sent() == [beat(have=Step(kind="train", round_no=0), want=Step(kind="anchor", round_no=1))]


def test_measuring_is_a_phase_and_wants_train_afterwards() -> None:
    agent = member()
    agent.receive(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None))
    assert agent.machine.phase is Activity.MEASURING
    agent.on(Reported(report=Stats(run=RUN, round_no=0, samples=3, moments=WEIGHTS)))
    agent.at(1.0)
    assert agent.sent()[-1] == beat(want=Step(kind="train", round_no=0)), "statistics are not on disk"
    assert agent.receive(beat(have=Step(kind="stats", round_no=0))) == [DropPayload()]
    agent.at(2.0)
    assert agent.sent()[-1] == beat(have=Step(kind="anchor", round_no=0), want=Step(kind="train", round_no=0))


def test_repeated_order_is_not_carried_out_twice_but_its_report_is_sent_again() -> None:
    agent = member()
    agent.receive(train(0))
    assert agent.receive(train(0)) == []
    agent.on(Reported(report=update(0)))
    agent.receive(train(0))
    assert (agent.work(), agent.sent()) == ([], [update(0)])


def test_stale_order_is_ignored() -> None:
    agent = member()
    agent.receive(train(1))
    agent.on(Reported(report=update(1)))
    assert agent.receive(train(0)) == []


def test_newer_order_waits_for_the_work_in_progress_and_replaces_an_older_one() -> None:
    agent = member()
    agent.receive(train(0))
    assert agent.receive(train(1)) == []
    assert agent.receive(train(2)) == []
    agent.on(Reported(report=update(0)))
    assert (agent.sent(), agent.work()) == ([update(0)], [train(2)])


def test_report_is_sent_again_after_being_wanted_twice_and_released_when_it_has_arrived() -> None:
    agent = member()
    agent.receive(train(0))
    agent.on(Reported(report=update(0)))
    want = beat(want=Step(kind="update", round_no=0))
    assert agent.receive(want) == []
    agent.receive(want)
    assert agent.sent() == [update(0)]
    assert agent.receive(beat(have=Step(kind="update", round_no=0))) == [DropPayload()]
    assert agent.receive(want) == []
    agent.receive(want)
    assert agent.sent() == [update(0)], "the coordinator has lost what it had"


def test_returning_participant_reports_what_an_earlier_process_finished() -> None:
    agent = Agent(run=RUN)
    agent.on(LineOpened())
    assert agent.sent() == [replace(HELLO, run=RUN)]
    agent.receive(replace(WELCOME, round_no=1, initial=None))
    agent.on(prepared(update(1)))
    assert agent.sent() == [update(1)]
    assert agent.receive(train(1)) == [Emit(message=update(1))]
    agent.receive(train(2))
    assert agent.work() == [train(2)]


def test_report_on_a_round_the_coordinator_does_not_know_is_kept_back() -> None:
    agent = Agent(run=RUN)
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, round_no=0, initial=None))
    agent.on(prepared(update(1)))
    assert agent.sent() == []


def test_finish_interrupts_training_and_ends_after_the_goodbye_is_had() -> None:
    agent = member()
    agent.receive(train(0))
    assert agent.receive(finish(1)) == [StopWork()]
    agent.on(Stopped())
    assert agent.work() == [finish(1)]
    agent.on(Reported(report=goodbye(1)))
    assert agent.sent() == [goodbye(1)]
    assert agent.machine.phase is Activity.DONE
    end = agent.receive(beat(have=Step(kind="goodbye", round_no=1)))
    assert isinstance(end[-1], End)
    assert end[-1].code == 0


def test_update_that_was_finished_after_finish_arrived_is_not_said_any_more() -> None:
    agent = member()
    agent.receive(train(0))
    agent.receive(finish(1))
    agent.on(Reported(report=update(0)))
    assert (agent.sent(), agent.work()) == ([], [finish(1)])


def test_failed_work_leaves_and_ends_with_its_sentence() -> None:
    agent = member()
    agent.receive(train(0))
    actions = agent.on(Failed(reason="no disk"))
    assert actions[-1] == End(code=2, reason="no disk")
    assert [message.KIND for message in agent.sent()] == ["leave"]


def test_refused_message_is_reported_and_another_version_ends() -> None:
    agent = member()
    (note,) = agent.receive(Error(code="too-far", reason="far", about=Step(kind="update", round_no=0)))
    assert isinstance(note, Log)
    assert note.warn
    actions = agent.receive(Error(code="version", reason="2.0", about=None))
    assert isinstance(actions[-1], End)


def test_welcome_to_another_run_drops_the_old_one() -> None:
    agent = member()
    agent.receive(train(0))
    other = replace(WELCOME, run="second", initial=WEIGHTS)
    actions = agent.receive(other)
    assert StopWork() in actions
    assert Prepare(welcome=other) in actions
    assert agent.on(Reported(report=update(0))) == []
    agent.on(replace(prepared(), run="second"))
    agent.at(agent.now + 100)
    assert agent.machine.phase in (Activity.IDLE, Activity.OFFLINE)


def test_payload_larger_than_the_model_is_not_fetched_and_ends_the_participant() -> None:
    agent = member()
    assert agent.machine.wants(train(0))
    impossible = replace(train(0), weights=LARGE)
    assert not agent.machine.wants(impossible)
    assert not agent.machine.wants(replace(WELCOME, run="second", initial=LARGE))
    end = agent.on(Announced(message=impossible))[-1]
    assert isinstance(end, End)
    assert (end.code, "announces 4194308 bytes; this model has at most 1000000" in end.reason) == (2, True)


def test_orders_of_a_run_whose_welcome_is_on_its_way_are_worth_fetching() -> None:
    agent = member()
    agent.receive(train(3))
    agent.on(Reported(report=update(3)))
    assert not agent.machine.wants(train(2))
    assert agent.machine.wants(replace(train(2), run="second"))


def test_announced_again_a_run_continues_and_an_answered_order_is_answered_again() -> None:
    """Neither the initial model nor the weights are fetched twice; what is owed is said."""
    agent = large_member()
    agent.receive(train(0))
    agent.on(Reported(report=update(0)))
    agent.on(Announced(message=replace(train(0), weights=LARGE)))
    assert agent.sent() == [update(0)]
    agent.receive(HelloRequired())
    agent.on(Announced(message=replace(WELCOME, initial=LARGE)))
    assert agent.sent() == [update(0)]
    assert agent.machine.phase is Activity.IDLE


def test_an_order_that_is_only_announced_is_never_worked_on() -> None:
    agent = large_member()
    assert agent.on(Announced(message=replace(train(0), weights=LARGE))) == []
    agent.at(agent.now + 1.0)
    assert agent.sent() == [beat(want=Step(kind="anchor", round_no=0))]
