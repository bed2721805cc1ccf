"""Runs a participant between socket and disk: the real machine and post, stepped as its shell steps them.

Work is a number added to the weights, finished when the caller says so. `disk` is what a real participant has saved:
the run whose initial model it holds, and its latest report except statistics. A crash is another `boot` over the same
disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from participant.decisions.actions import (
    Action,
    CloseLine,
    DropPayload,
    Emit,
    End,
    OpenLine,
    Order,
    Prepare,
    StopWork,
    Work,
)
from participant.decisions.events import (
    Announced,
    Event,
    LineLost,
    LineOpened,
    MessageReceived,
    PayloadMoved,
    Prepared,
    Report,
    Reported,
    Stopped,
    Ticked,
)
from participant.decisions.machine import AgentMachine
from participant.decisions.reconnection import ConnectionState, Timeouts
from participant.wire.message_stream import MessageStream
from protocol.codec import offers
from protocol.errors import LocalProtocolError
from protocol.messages import Anchor, Finish, Goodbye, Message, Stats, Update, Welcome
from scripts.inmemory.centre import Addressed, Clock, Frames
from scripts.inmemory.setup import MOMENTS, RUN, SAMPLES, Setup

TIMEOUTS = Timeouts(reconnect_s=0.5, reconnect_cap_s=4.0, answer_s=2.0, silence_beats=4.0, farewell_s=10.0)


class Steady:
    """A random generator that always returns one half."""

    def random(self) -> float:
        return 0.5


class Unfilled(AssertionError):
    """Work was started on a message without the payload that it announced."""


class Accused(AssertionError):
    """One side accused an honest peer of a fault."""


@dataclass
class Saved:
    """State on disk. final: the weights the participant ended with."""

    run: str | None = None
    report: Report | None = None
    final: bytes | None = None


class MemoryHome:
    """One participant. is_opening: a connection is requested; connection: the open one; sent: messages that have not
    been taken yet. mark: its fingerprint, None once it changes."""

    def __init__(self, setup: Setup, name: str) -> None:
        self._setup = setup
        self.name = name
        self.clock = Clock()
        self.sent: list[Addressed] = []
        self.mark: str | None = None
        self.disk = Saved()
        self.serial = self.lives = 0
        self.boot()

    def boot(self) -> None:
        """Start a new process."""
        self.lives += 1
        self.machine = AgentMachine(
            hello=self._setup.hello(self.name, self.disk.run, self.lives),
            line=ConnectionState(TIMEOUTS, cast(Any, Steady()), has_finished=self.has_finished()),
            model_bytes=self._setup.layout.size_bytes("f32"),
        )
        self.stream = MessageStream(self.machine.wants)
        self.connection: str | None = None
        self.is_opening = False
        self.job: Event | None = None
        self.end: End | None = None
        self._perform(self.machine.start(self.clock.now))

    def has_finished(self) -> bool:
        """Whether an earlier process has saved its goodbye."""
        return isinstance(self.disk.report, Goodbye)

    # ---- what happens to it

    def connected(self) -> None:
        """Handle that the requested connection is open."""
        self.is_opening = False
        self.serial += 1
        self.connection = f"{self.name}#{self.serial}"
        self._step([LineOpened()])

    def lost(self, reason: str) -> None:
        """Handle that the connection broke, or that nobody answered."""
        self.is_opening, self.connection = False, None
        self._step([LineLost(reason=reason)])

    def receive(self, batch: Sequence[Frames]) -> None:
        """Handle messages that were in the socket together, each before the next is decoded. If the machine closes the
        connection because of one of them, the rest is lost."""
        connection = self.connection
        for frames in batch:
            for event in self.judge(frames) if self.connection == connection else ():
                self._tell(event)
        self._step([])

    def judge(self, frames: Frames) -> list[Event]:
        """Return the machine's events for one message."""
        complete = self.stream.receive(frames)
        if self.stream.refused:
            raise Accused(f"{self.name} calls the coordinator faulty: {self.stream.refused}")
        found: list[Event] = [PayloadMoved()] if self.stream.moved else []
        if self.stream.announced is not None:
            found.append(Announced(message=self.stream.announced))
        self._flush()
        return [*found, *(MessageReceived(message=message) for message in complete)]

    def save(self) -> None:
        """Save the result of work in progress to disk."""
        job = self.job
        if isinstance(job, Reported) and not isinstance(job.report, Stats):
            self.disk.report = job.report

    def finish_work(self) -> None:
        """Finish work in progress: save the result, then pass it to the machine."""
        self.save()
        job, self.job = self.job, None
        if job is not None:
            self._step([job])

    def tick(self) -> None:
        self._step([])

    # ---- acting

    def _step(self, events: Sequence[Event]) -> None:
        for event in (*events, Ticked()):
            self._tell(event)
        self._flush()

    def _tell(self, event: Event) -> None:
        self._perform(self.machine.handle(event, self.clock.now))
        self.machine.check_invariants()

    def _perform(self, actions: Sequence[Action]) -> None:  # noqa: C901 - one line per action
        for action in actions:
            match action:
                case Emit(message=message):
                    self._send(message)
                case OpenLine():
                    self._close()
                    self.is_opening = True
                case CloseLine():
                    self._flush()
                    self._close()
                case DropPayload():
                    self.stream.release()
                case End():
                    self.end = action
                case Prepare(welcome=welcome):
                    self._prepare(welcome)
                case Work(order=order):
                    self._work(order)
                case StopWork():
                    if isinstance(self.job, Reported):
                        self.job = Stopped()

    def _send(self, message: Message) -> None:
        try:
            self.stream.send(message)
        except LocalProtocolError:
            return  # a message of the coordinator has made it obsolete
        self._flush()

    def _close(self) -> None:
        self.connection, self.is_opening = None, False
        self.stream.lost()

    def _flush(self) -> None:
        while self.connection is not None and self.stream.outbound:
            self.sent.append((self.connection, tuple(map(bytes, self.stream.outbound.popleft().frames))))

    def _prepare(self, welcome: Welcome) -> None:
        if welcome.initial is not None and welcome.initial.data is None:
            raise Unfilled(f"{self.name} prepares for {welcome.run} without the initial model")
        if welcome.initial is None and self.disk.run != welcome.run:
            raise Unfilled(f"{self.name} holds no initial model of {welcome.run}")
        self.disk.run = welcome.run
        report = self.disk.report
        self.job = Prepared(run=RUN, report=report, train_samples=SAMPLES, test_samples=SAMPLES)

    def _work(self, order: Order) -> None:
        if self.job is not None:
            raise AssertionError(f"{self.name} does two pieces of work at a time")
        if offers(order):
            raise Unfilled(f"{self.name} works on {order.KIND} {order.round_no} without its bytes")
        self.job = Reported(report=self._report(order))

    def _report(self, order: Order) -> Report:
        if isinstance(order, Anchor):
            return Stats(run=RUN, round_no=order.round_no, samples=SAMPLES, moments=MOMENTS)
        if isinstance(order, Finish):
            if order.weights is not None:
                self.disk.final = order.weights.flat().tobytes()
            return Goodbye(run=RUN, round_no=order.round_no, scores=())
        step = 1.0 + self._setup.names.index(self.name)
        trained = (order.weights.flat() + step).astype("float32")
        if self._setup.continuous:
            trained = (self._setup.initial + 10 * order.round_no + step).astype("float32")
        weights = self._setup.weights(trained)
        return Update(run=RUN, round_no=order.round_no, steps=1, train_loss=0.5, scores=(), weights=weights)
