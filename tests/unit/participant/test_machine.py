"""Claims about the participant's machine: what it does on each event, without sockets, files or clocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from participant.actions import (
    Action,
    CloseLine,
    End,
    LetGo,
    Note,
    OpenLine,
    Prepare,
    Say,
    StopWork,
    Work,
)
from participant.events import (
    Event,
    Failed,
    Heard,
    LineLost,
    LineOpened,
    PayloadMoved,
    Prepared,
    Report,
    Reported,
    Stopped,
    StopRequested,
    Ticked,
)
from participant.machine import AgentMachine, Phase
from participant.reconnection import Lifeline, Patience
from protocol.messages import (
    Anchor,
    Error,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequired,
    Leave,
    Message,
    Reject,
    Stats,
    Step,
    Train,
    Update,
)
from protocol.tensors import TensorSet
from tests.unit.protocol.samples import HELLO, RUN, WELCOME

PATIENCE = Patience(reconnect_s=1.0, reconnect_cap_s=8.0, answer_s=2.0, silence_beats=3.0, farewell_s=10.0)
WEIGHTS = TensorSet.of({"w": np.zeros(2, dtype=np.float32)})


class Agent:
    """A machine whose every step is checked, and what it did."""

    def __init__(self, patience: Patience = PATIENCE, run: str | None = None) -> None:
        self.now = 0.0
        lifeline = Lifeline(patience, np.random.default_rng(0))
        self.machine = AgentMachine(greeting=replace(HELLO, run=run), lifeline=lifeline, model_bytes=10**6)
        self.actions = self.machine.start(self.now)

    def on(self, event: Event) -> list[Action]:
        self.actions = self.machine.handle(event, self.now)
        self.machine.check_invariants()
        return self.actions

    def hear(self, message: Message) -> list[Action]:
        return self.on(Heard(message=message))

    def at(self, now: float) -> list[Action]:
        self.now = now
        return self.on(Ticked())

    def said(self) -> list[Message]:
        return [action.message for action in self.actions if isinstance(action, Say)]

    def work(self) -> list[object]:
        return [action.order for action in self.actions if isinstance(action, Work)]


def train(round_no: int) -> Train:
    return Train(run=RUN, round_no=round_no, phase="mixed", measure="none", weights=WEIGHTS)


def update(round_no: int) -> Update:
    return Update(run=RUN, round_no=round_no, steps=1, train_loss=0.5, scores=(), weights=WEIGHTS)


def finish(round_no: int) -> Finish:
    return Finish(run=RUN, round_no=round_no, reason="rounds", weights=WEIGHTS)


def goodbye(round_no: int) -> Goodbye:
    return Goodbye(run=RUN, round_no=round_no, scores=())


def beat(have: Step | None = None, want: Step | None = None) -> Heartbeat:
    return Heartbeat(run=RUN, round_no=0, have=have, want=want)


def prepared(report: Report | None = None) -> Prepared:
    return Prepared(run=RUN, report=report, train_samples=HELLO.train_samples, test_samples=HELLO.test_samples)


def member(patience: Patience = PATIENCE) -> Agent:
    """Welcomed, prepared, idle."""
    agent = Agent(patience)
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS))
    agent.on(prepared())
    return agent


def test_first_thing_is_a_line_and_the_first_word_a_hello() -> None:
    agent = Agent()
    assert agent.actions == [OpenLine()]
    agent.on(LineOpened())
    assert agent.said() == [HELLO]
    assert agent.machine.phase is Phase.GREETING


def test_unanswered_hello_is_said_again_and_then_a_fresh_line_is_tried() -> None:
    """answer_s is 2: again at 2 and 4; at 3 * 2 = 6 the line counts as dead."""
    agent = Agent()
    agent.on(LineOpened())
    assert agent.at(1.9) == []
    for now in (2.0, 4.0):
        agent.at(now)
        assert [message.KIND for message in agent.said()] == ["hello"]
    assert CloseLine() in agent.at(6.0)
    assert agent.machine.phase is Phase.OFFLINE


def test_payload_that_moves_delays_the_next_hello() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.now = 1.5
    agent.on(PayloadMoved())
    assert agent.at(2.5) == []
    agent.at(3.5)
    assert [message.KIND for message in agent.said()] == ["hello"]


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


def test_welcome_prepares_and_the_first_heartbeat_wants_whatever_comes_first() -> None:
    agent = Agent()
    agent.on(LineOpened())
    welcome = replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS)
    assert Prepare(welcome=welcome) in agent.hear(welcome)
    agent.at(1.0)
    assert agent.said() == [beat()], "while it prepares it wants nothing"
    agent.on(prepared())
    agent.at(2.0)
    assert agent.said() == [beat(want=Step(kind="anchor", round_no=0))]
    assert agent.machine.phase is Phase.IDLE


def test_order_that_comes_while_the_model_is_prepared_is_not_lost() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, initial=WEIGHTS))
    assert agent.hear(train(0)) == []
    agent.on(prepared())
    assert agent.work() == [train(0)]


def test_round_goes_from_order_to_report_to_the_next_want() -> None:
    agent = member()
    agent.hear(train(0))
    assert agent.work() == [train(0)]
    assert agent.machine.phase is Phase.TRAINING
    agent.at(1.0)
    assert agent.said() == [replace(beat(), round_no=0)], "an order is had when a crash cannot lose it any more"
    agent.on(Reported(report=update(0)))
    assert agent.said() == [update(0)]
    agent.at(2.0)
    assert agent.said() == [beat(have=Step(kind="train", round_no=0), want=Step(kind="anchor", round_no=1))]


def test_measuring_is_a_phase_and_wants_train_afterwards() -> None:
    agent = member()
    agent.hear(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None))
    assert agent.machine.phase is Phase.MEASURING
    agent.on(Reported(report=Stats(run=RUN, round_no=0, samples=3, moments=WEIGHTS)))
    agent.at(1.0)
    assert agent.said()[-1] == beat(want=Step(kind="train", round_no=0)), "statistics are not on disk"
    assert agent.hear(beat(have=Step(kind="stats", round_no=0))) == [LetGo()]
    agent.at(2.0)
    assert agent.said()[-1] == beat(have=Step(kind="anchor", round_no=0), want=Step(kind="train", round_no=0))


def test_repeated_order_is_not_carried_out_twice_but_its_report_is_said_again() -> None:
    agent = member()
    agent.hear(train(0))
    assert agent.hear(train(0)) == []
    agent.on(Reported(report=update(0)))
    agent.hear(train(0))
    assert (agent.work(), agent.said()) == ([], [update(0)])


def test_stale_order_is_ignored() -> None:
    agent = member()
    agent.hear(train(1))
    agent.on(Reported(report=update(1)))
    assert agent.hear(train(0)) == []


def test_newer_order_waits_for_the_work_in_progress_and_replaces_an_older_one() -> None:
    agent = member()
    agent.hear(train(0))
    assert agent.hear(train(1)) == []
    assert agent.hear(train(2)) == []
    agent.on(Reported(report=update(0)))
    assert (agent.said(), agent.work()) == ([update(0)], [train(2)])


def test_report_is_said_again_after_being_wanted_twice_and_let_go_when_it_is_had() -> None:
    agent = member()
    agent.hear(train(0))
    agent.on(Reported(report=update(0)))
    want = beat(want=Step(kind="update", round_no=0))
    assert agent.hear(want) == []
    agent.hear(want)
    assert agent.said() == [update(0)]
    assert agent.hear(beat(have=Step(kind="update", round_no=0))) == [LetGo()]
    assert agent.hear(want) == []
    assert agent.hear(want) == []


def test_training_goes_on_while_the_line_is_down_and_its_report_is_said_on_return() -> None:
    agent = member()
    agent.hear(train(0))
    actions = agent.on(LineLost(reason="cut"))
    assert not any(isinstance(action, StopWork) for action in actions)
    assert agent.machine.phase is Phase.OFFLINE
    agent.on(Reported(report=update(0)))
    assert agent.said() == []
    agent.at(2.0)
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, initial=None))
    assert agent.said() == [update(0)]


def test_silence_of_a_few_heartbeats_means_a_fresh_line() -> None:
    """heartbeat_s 1 and three beats of silence: dead at 3, unless something is heard."""
    agent = member()
    agent.now = 2.0
    agent.hear(beat())
    agent.at(4.9)
    assert CloseLine() not in agent.actions
    for _ in range(2):  # the heartbeat due may come first
        agent.at(5.0)
        if CloseLine() in agent.actions:
            break
    assert CloseLine() in agent.actions


def test_hello_required_is_answered_by_hello_with_the_run_that_is_held() -> None:
    agent = member()
    agent.hear(HelloRequired())
    assert agent.said() == [replace(HELLO, run=RUN)]
    assert agent.machine.phase is Phase.GREETING


def test_one_who_comes_back_says_what_an_earlier_life_finished() -> None:
    agent = Agent(run=RUN)
    agent.on(LineOpened())
    assert agent.said() == [replace(HELLO, run=RUN)]
    agent.hear(replace(WELCOME, round_no=1, initial=None))
    agent.on(prepared(update(1)))
    assert agent.said() == [update(1)]
    assert agent.hear(train(1)) == [Say(message=update(1))]
    agent.hear(train(2))
    assert agent.work() == [train(2)]


def test_report_on_a_round_the_coordinator_does_not_know_is_kept_back() -> None:
    agent = Agent(run=RUN)
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, round_no=0, initial=None))
    agent.on(prepared(update(1)))
    assert agent.said() == []


def test_welcome_without_a_model_for_a_run_not_held_is_answered_by_a_hello_as_a_stranger() -> None:
    agent = Agent(run="another-run")
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, initial=None))
    (said,) = agent.said()
    assert isinstance(said, Hello)
    assert said.run is None


def test_counts_of_another_split_are_told_by_a_new_hello() -> None:
    agent = Agent()
    agent.on(LineOpened())
    agent.hear(replace(WELCOME, initial=WEIGHTS))
    agent.on(replace(prepared(), train_samples=7))
    assert agent.said() == [replace(HELLO, run=RUN, train_samples=7)]


def test_finish_interrupts_training_and_ends_after_the_goodbye_is_had() -> None:
    agent = member()
    agent.hear(train(0))
    assert agent.hear(finish(1)) == [StopWork()]
    agent.on(Stopped())
    assert agent.work() == [finish(1)]
    agent.on(Reported(report=goodbye(1)))
    assert agent.said() == [goodbye(1)]
    assert agent.machine.phase is Phase.DONE
    end = agent.hear(beat(have=Step(kind="goodbye", round_no=1)))
    assert isinstance(end[-1], End)
    assert end[-1].code == 0


def test_update_that_was_finished_after_finish_arrived_is_not_said_any_more() -> None:
    agent = member()
    agent.hear(train(0))
    agent.hear(finish(1))
    agent.on(Reported(report=update(0)))
    assert (agent.said(), agent.work()) == ([], [finish(1)])


def test_unconfirmed_goodbye_ends_after_the_farewell_time() -> None:
    agent = member()
    agent.hear(finish(1))
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
        agent.hear(replace(WELCOME, round_no=1, initial=None))
        agent.on(prepared(goodbye(1)))
        agent.on(LineLost(reason="gone"))
        agent.on(LineOpened())
    actions = agent.hear(Reject(code="run-over", reason="it is over"))
    assert isinstance(actions[-1], End)
    assert actions[-1].code == (0 if run_is_done else 2)


def test_refusal_ends_with_both_values_in_its_sentence() -> None:
    agent = Agent()
    agent.on(LineOpened())
    actions = agent.hear(Reject(code="wrong-classes", reason="differ", ours="a", yours="b"))
    assert isinstance(actions[-1], End)
    assert (actions[-1].code, actions[-1].reason) == (
        2, "refused, wrong-classes: differ (the coordinator has a, here is b)",
    )  # fmt: skip
    assert agent.hear(beat()) == []


def test_taken_name_is_tried_again_by_one_who_comes_back_only() -> None:
    for run, ends in ((RUN, False), (None, True)):
        agent = Agent(run=run)
        agent.on(LineOpened())
        actions = agent.hear(Reject(code="name-taken", reason="taken"))
        assert any(isinstance(action, End) for action in actions) is ends


def test_gives_up_only_as_configured() -> None:
    patient, hasty = Agent(), Agent(replace(PATIENCE, give_up_s=5.0))
    for agent in (patient, hasty):
        agent.on(LineLost(reason="nobody"))
    assert not any(isinstance(action, End) for action in patient.at(1e6))
    actions = hasty.at(5.0)
    assert isinstance(actions[-1], End)
    assert actions[-1].code == 1


def test_stop_request_stops_work_leaves_and_ends() -> None:
    agent = member()
    agent.hear(train(0))
    actions = agent.on(StopRequested(reason="SIGTERM", code=143))
    assert actions[0] == StopWork()
    assert agent.said() == [Leave(run=RUN, reason="SIGTERM")]
    assert actions[-1] == End(code=143, reason="SIGTERM")


def test_failed_work_leaves_and_ends_with_its_sentence() -> None:
    agent = member()
    agent.hear(train(0))
    actions = agent.on(Failed(reason="no disk"))
    assert actions[-1] == End(code=2, reason="no disk")
    assert [message.KIND for message in agent.said()] == ["leave"]


def test_refused_message_is_told_and_another_version_ends() -> None:
    agent = member()
    (note,) = agent.hear(Error(code="too-far", reason="far", about=Step(kind="update", round_no=0)))
    assert isinstance(note, Note)
    assert note.warn
    actions = agent.hear(Error(code="version", reason="2.0", about=None))
    assert isinstance(actions[-1], End)


def test_welcome_to_another_run_drops_the_old_one() -> None:
    agent = member()
    agent.hear(train(0))
    other = replace(WELCOME, run="second", initial=WEIGHTS)
    actions = agent.hear(other)
    assert StopWork() in actions
    assert Prepare(welcome=other) in actions
    assert agent.on(Reported(report=update(0))) == []
    agent.on(replace(prepared(), run="second"))
    agent.at(agent.now + 100)
    assert agent.machine.phase in (Phase.IDLE, Phase.OFFLINE)


def test_payload_larger_than_the_model_is_not_fetched() -> None:
    agent = member()
    large = TensorSet.of({"w": np.zeros(300_000, dtype=np.float32)})
    assert not agent.machine.wants(replace(train(0), weights=large))
    assert agent.machine.wants(train(0))
