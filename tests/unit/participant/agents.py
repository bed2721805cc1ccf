"""A participant's machine whose every step is checked, and messages to feed it: what the tests of it share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from participant.decisions.actions import Action, Emit, Work
from participant.decisions.events import (
    Event,
    LineOpened,
    MessageReceived,
    Prepared,
    Report,
    Ticked,
)
from participant.decisions.machine import AgentMachine
from participant.decisions.reconnection import ConnectionState, Timeouts
from protocol.messages import (
    Finish,
    Goodbye,
    Heartbeat,
    Message,
    Step,
    Train,
    Update,
)
from protocol.tensors import TensorSet
from tests.unit.protocol.samples import HELLO, RUN, WELCOME

TIMEOUTS = Timeouts(reconnect_s=1.0, reconnect_cap_s=8.0, answer_s=2.0, silence_beats=3.0, farewell_s=10.0)
WEIGHTS = TensorSet.of({"w": np.zeros(2, dtype=np.float32)})


class Agent:
    """A machine whose every step is checked, and what it did."""

    def __init__(
        self,
        timeouts: Timeouts = TIMEOUTS,
        run: str | None = None,
        *,
        model_bytes: int = 10**6,
        has_finished: bool = False,
    ) -> None:
        self.now = 0.0
        line = ConnectionState(timeouts, np.random.default_rng(0), has_finished=has_finished)
        self.machine = AgentMachine(hello=replace(HELLO, run=run), line=line, model_bytes=model_bytes)
        self.actions = self.machine.start(self.now)

    def on(self, event: Event) -> list[Action]:
        self.actions = self.machine.handle(event, self.now)
        self.machine.check_invariants()
        return self.actions

    def receive(self, message: Message) -> list[Action]:
        return self.on(MessageReceived(message=message))

    def at(self, now: float) -> list[Action]:
        self.now = now
        return self.on(Ticked())

    def sent(self) -> list[Message]:
        return [action.message for action in self.actions if isinstance(action, Emit)]

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


def member(timeouts: Timeouts = TIMEOUTS, *, model_bytes: int = 10**6) -> Agent:
    """Welcomed, prepared, idle."""
    agent = Agent(timeouts, model_bytes=model_bytes)
    agent.on(LineOpened())
    agent.receive(replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS))
    agent.on(prepared())
    return agent


def large_member() -> Agent:
    """One whose model travels in slices."""
    return member(model_bytes=10**8)
