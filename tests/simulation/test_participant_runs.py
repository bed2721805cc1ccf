"""The participant's machine and post through whole runs in virtual time, on a line that fails, with kills in between.

The coordinator is a sketch that orders one round after another. Work takes a drawn time; a kill forgets everything but
what a real participant has on disk (the run it belongs to and its latest report).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

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
from protocol.contracts import Buffer
from protocol.conversation import PeerState
from protocol.delivery import Outbox
from protocol.limits import SLICE_BYTES
from protocol.messages import (
    ORDERS,
    REPORTS,
    Anchor,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequired,
    Message,
    Side,
    Stats,
    Step,
    Train,
    Update,
)
from protocol.tensors import TensorSet
from tests.support.link import FaultyLink, LinkFaults
from tests.unit.protocol.samples import HELLO, MOMENTS, RUN, WELCOME

ROUNDS = 3
PATIENCE_S = 2000
BEAT_S = 1.0
Parcel = tuple[int, list[Buffer]]
"""The number of the connection, and the frames."""


def weights(round_no: int, *, large: bool) -> TensorSet:
    values = np.zeros(SLICE_BYTES // 2 + 10 if large else 10, dtype=np.float32)
    values[0] = round_no
    return TensorSet.of({"w": values})


class SimulatedProcess:
    """One participant: a shell in virtual time. `disk` survives a kill."""

    def __init__(self, link: FaultyLink[Parcel], rng: np.random.Generator, *, large: bool) -> None:
        self._link, self._rng, self._large = link, rng, large
        self.disk: tuple[str | None, Report | None] = (None, None)
        self.trained: list[int] = []
        self.connection = 0
        self.end: End | None = None
        self.now = 0.0
        self.start()

    def start(self) -> None:
        """A new life."""
        timeouts = Timeouts(reconnect_s=0.5, reconnect_cap_s=4.0, answer_s=2.0, silence_beats=4.0, farewell_s=500.0)
        line = ConnectionState(timeouts, np.random.default_rng(1))
        greeting = replace(HELLO, run=self.disk[0])
        self.machine = AgentMachine(hello=greeting, line=line, model_bytes=2**30)
        self.stream = MessageStream(self.machine.wants)
        self.is_up = False
        self.work: tuple[float, Event] | None = None
        self._perform(self.machine.start(self.now))

    def tell(self, event: Event) -> None:
        self._perform(self.machine.handle(event, self.now))
        self.machine.check_invariants()

    def receive(self, parcel: Parcel) -> None:
        connection, frames = parcel
        if connection != self.connection or not self.is_up:
            return
        complete = self.stream.receive(frames)
        assert self.stream.refused == "", "the coordinator was accused"
        moved, announced = self.stream.moved, self.stream.announced
        if moved:
            self.tell(PayloadMoved())
        if announced is not None:
            self.tell(Announced(message=announced))
        for message in complete:
            self.tell(MessageReceived(message=message))
        self._flush()

    def cut(self) -> None:
        if self.is_up:
            self.tell(LineLost(reason="cut"))

    def pass_time(self) -> None:
        if self.work is not None and self.now >= self.work[0]:
            event, self.work = self.work[1], None
            if isinstance(event, Reported):
                if not isinstance(event.report, Stats):
                    self.disk = (RUN, event.report)
                if isinstance(event.report, Update):
                    self.trained.append(event.report.round_no)
            self.tell(event)
        self.tell(Ticked())
        self._flush()

    def _perform(self, actions: list[Action]) -> None:  # noqa: C901 - one line per action
        for action in actions:
            match action:
                case Emit(message=message):
                    self.stream.send(message)
                    self._flush()
                case OpenLine():
                    self.connection += 1
                    self.is_up = True
                    self.tell(LineOpened())
                case CloseLine():
                    self.is_up = False
                    self.stream.lost()
                case DropPayload():
                    self.stream.release()
                case Prepare():
                    self.disk = (RUN, self.disk[1])
                    done = Prepared(run=RUN, report=self.disk[1], train_samples=500, test_samples=500)
                    self.work = (self.now, done)
                case Work(order=order):
                    assert self.work is None, "two pieces of work at a time"
                    seconds = float(self._rng.uniform(0.0, 6.0))
                    self.work = (self.now + seconds, Reported(report=self._answer(order)))
                case StopWork():
                    if self.work is not None and isinstance(self.work[1], Reported):
                        self.work = (self.now, Stopped())
                case End():
                    self.end = action

    def _answer(self, order: Order) -> Report:
        if isinstance(order, Anchor):
            return Stats(run=RUN, round_no=order.round_no, samples=1, moments=MOMENTS)
        if isinstance(order, Finish):
            return Goodbye(run=RUN, round_no=order.round_no, scores=())
        trained = weights(order.round_no, large=self._large)
        return Update(run=RUN, round_no=order.round_no, steps=1, train_loss=0.0, scores=(), weights=trained)

    def _flush(self) -> None:
        while self.stream.outbound:
            outgoing = self.stream.outbound.popleft()
            if self.is_up:
                self._link.send("coordinator", (self.connection, list(outgoing.frames)), self.now)


class SimulatedCoordinator:
    """A coordinator of one participant; it never dies but may forget its connections."""

    def __init__(self, link: FaultyLink[Parcel], *, large: bool) -> None:
        self._link, self._large = link, large
        self.now = 0.0
        self.order: Order | None = None
        self.have: Step | None = None
        self._outbox = Outbox()
        self._streams: dict[int, MessageStream] = {}
        self._newest: int | None = None

    def forget(self) -> None:
        self._streams.clear()
        self._newest = None

    def receive(self, parcel: Parcel) -> None:
        connection, frames = parcel
        stream = self._streams.setdefault(connection, MessageStream(self._is_wanted, Side.COORDINATOR))
        for message in stream.receive(frames):
            if isinstance(message, Hello):
                self._newest = connection
                self._welcome(message)
            elif connection == self._newest:
                self._on(message)
        assert stream.refused == "", "the participant was accused"
        if stream._conversation.state in (PeerState.UNKNOWN, PeerState.CLOSED):
            stream.send(HelloRequired())
        self._flush(connection)

    def beat(self) -> None:
        if self._newest is not None and self.order is not None:
            report = Step(kind=REPORTS[ORDERS.index(self.order.KIND)], round_no=self.order.round_no)
            want = None if self.have == report else report
            self._send(Heartbeat(run=RUN, round_no=self.order.round_no, have=self.have, want=want))

    def _is_wanted(self, message: Message) -> bool:
        step = Step(kind=message.KIND, round_no=message.round_no) if isinstance(message, Update) else None
        return step is None or self.have is None or step.place > self.have.place

    def _welcome(self, hello: Hello) -> None:
        initial = None if hello.run == RUN else weights(-1, large=self._large)
        round_no = 0 if self.order is None else self.order.round_no
        self._send(replace(WELCOME, heartbeat_s=BEAT_S, round_no=round_no, initial=initial))
        if self.order is None:
            self._give(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None))

    def _on(self, message: Message) -> None:
        if isinstance(message, Heartbeat):
            if self._outbox.received(message) is not None and self.order is not None:
                self._send(self.order)
        elif isinstance(message, Stats | Update | Goodbye):
            step = Step(kind=message.KIND, round_no=message.round_no)
            if self.have is not None and step.place <= self.have.place:
                return
            self.have = step
            if isinstance(message, Stats):
                self._order_round(0)
            elif isinstance(message, Update):
                assert message.weights.flat()[0] == message.round_no
                self._order_round(message.round_no + 1)

    def _order_round(self, round_no: int) -> None:
        mixed = weights(round_no, large=self._large)
        if round_no < ROUNDS:
            self._give(Train(run=RUN, round_no=round_no, phase="mixed", measure="none", weights=mixed))
        else:
            self._give(Finish(run=RUN, round_no=round_no, reason="rounds", weights=mixed))

    def _give(self, order: Order) -> None:
        self.order = order
        self._outbox.hold(Step(kind=order.KIND, round_no=order.round_no))
        self._send(order)

    def _send(self, message: Message) -> None:
        if self._newest is not None:
            self._streams[self._newest].send(message)
            self._flush(self._newest)

    def _flush(self, connection: int) -> None:
        stream = self._streams[connection]
        while stream.outbound:
            self._link.send("participant", (connection, list(stream.outbound.popleft().frames)), self.now)


def run_to_its_end(weather: LinkFaults, seed: int, mishaps: dict[int, str], *, large: bool) -> SimulatedProcess:
    """Mishaps happen after so many deliveries: cut (the participant sees it), kill, forget (the coordinator does)."""
    rng = np.random.default_rng(seed)
    link: FaultyLink[Parcel] = FaultyLink(weather, rng)
    process, sketch = SimulatedProcess(link, rng, large=large), SimulatedCoordinator(link, large=large)
    delivered = 0
    for quarter in range(4 * PATIENCE_S):
        now = quarter / 4
        if process.end is not None:
            return process
        process.now = sketch.now = now
        process.pass_time()
        if quarter % 4 == 0:
            sketch.beat()
        while (arrival := link.next_arrival()) is not None and arrival < now + 0.25 and process.end is None:
            to, parcel = link.receive()
            process.now = sketch.now = arrival
            process.receive(parcel) if to == "participant" else sketch.receive(parcel)
            delivered += 1
            mishap = mishaps.get(delivered)
            if mishap == "forget":
                sketch.forget()
            elif mishap is not None:
                link.cut()
                process.start() if mishap == "kill" else process.cut()
    raise AssertionError(f"no end after {PATIENCE_S} s: {process.machine.phase}, {sketch.order}, {sketch.have}")


weathers = st.builds(
    LinkFaults,
    faults=st.integers(0, 40),
    loss=st.floats(0, 0.5),
    duplication=st.floats(0, 0.3),
    delay=st.floats(0, 0.3),
)
mishap_plans = st.dictionaries(st.integers(1, 60), st.sampled_from(["cut", "kill", "forget"]), max_size=5)


def check(process: SimulatedProcess) -> None:
    """It ended well, and no finished round was trained twice."""
    assert process.end is not None
    assert process.end.code == 0
    assert process.trained == [0, 1, 2]


@settings(max_examples=80, deadline=None)
@given(weathers, st.integers(0, 2**32), mishap_plans)
def test_every_run_ends_and_trains_every_round_once_whatever_happens(
    weather: LinkFaults, seed: int, mishaps: dict[int, str]
) -> None:
    check(run_to_its_end(weather, seed, mishaps, large=False))


@settings(max_examples=10, deadline=None)
@given(weathers, st.integers(0, 2**32), mishap_plans)
def test_every_run_with_sliced_payloads_ends_too(weather: LinkFaults, seed: int, mishaps: dict[int, str]) -> None:
    check(run_to_its_end(weather, seed, mishaps, large=True))


def test_undisturbed_run_takes_as_long_as_its_work() -> None:
    """Five pieces of work of at most 6 s each (anchor, three rounds, finish) and no waiting for heartbeats."""
    process = run_to_its_end(LinkFaults(), 0, {}, large=False)
    check(process)
    assert process.now <= 5 * 6 + 5
