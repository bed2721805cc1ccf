"""Claims about what is heard together: a whole coordinator at a real socket, its messages put in the order of the test.

A turn hears many messages before anything is said or done. What the first of them means for the others must count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from coordinator.config import make_config
from coordinator.decisions import events
from coordinator.runs import Federation, open_run
from coordinator.wire.router import Received
from participant.wire.message_stream import MessageStream
from protocol.limits import SLICE_BYTES
from protocol.messages import Hello, Message, Slice, Train, Update
from protocol.tensors import TensorSet
from tests.support.cohorts import wait_until
from tests.support.federation import close_federation, fields
from tests.support.tiny_models import TinyModel, tiny_model

BODIES = {"whole": 1000, "in slices": SLICE_BYTES // 4 + 1000}
DEADLINE_S = 30.0


class Caller:
    """A participant's end of one connection, which holds back what the test wants held back."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.stream = MessageStream(lambda _message: True)
        self.received: list[Message] = []
        self.holds: Callable[[Message], bool] = lambda _message: False

    def flush(self) -> None:
        while self.stream.outbound and not self.holds(self.stream.outbound[0].message):
            self.socket.send_multipart(self.stream.outbound.popleft().frames)

    def receive(self) -> None:
        while self.socket.poll(0):
            self.received += self.stream.receive(self.socket.recv_multipart())
            self.flush()

    def send(self, message: Message) -> None:
        self.stream.send(message)
        self.flush()


class ManualCoordinator:
    """A coordinator whose turns the test takes."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.coordinator = federation.coordinator
        self.coordinator._decide(events.Started())
        self.coordinator._act()

    def turn_until(self, condition: Callable[[], bool], what: str, *callers: Caller) -> None:
        def comes() -> bool:
            self.coordinator._turn()
            for caller in callers:
                caller.receive()
            return condition()

        wait_until(comes, what, deadline_s=DEADLINE_S)

    def take(self, count: int) -> list[Received]:
        """So many messages from the socket, not heard yet."""
        taken: list[Received] = []

        def came() -> bool:
            taken.extend(self.coordinator._parts.router.received(10))
            return len(taken) >= count

        wait_until(came, f"{count} messages", deadline_s=DEADLINE_S)
        return taken

    def receive(self, received: list[Received]) -> None:
        """One turn's messages, in this order."""
        for one in received:
            for event in self.federation.exchange.receive(one, self.coordinator.now()):
                self.coordinator._decide(event)
        self.coordinator._act()

    def has_update(self) -> bool:
        answered = self.federation.machine.state.members["a"].answered
        return answered is not None and answered.kind == "update"


@pytest.fixture(params=BODIES)
def model(request: pytest.FixtureRequest) -> TinyModel:
    return tiny_model(body=BODIES[request.param])


@pytest.fixture
def desk(model: TinyModel, tmp_path: Path) -> Iterator[ManualCoordinator]:
    chosen = fields(
        tmp_path / "run",
        model.write(tmp_path / "initial.safetensors"),
        algorithm="fedavg",
        members={"names": ("a",), "at_least": 1},
        network={"endpoint": "tcp://127.0.0.1:*"},
    )
    federation = open_run(make_config(chosen))
    yield ManualCoordinator(federation)
    close_federation(federation)


def ordered(caller: Caller) -> list[Train]:
    return [message for message in caller.received if isinstance(message, Train)]


def update_of(order: Train) -> Update:
    weights = TensorSet.of_flat(order.weights.layout, np.array(order.weights.flat()) + np.float32(0.01))
    return Update(run=order.run, round_no=order.round_no, steps=1, train_loss=0.5, scores=(), weights=weights)


def test_a_report_whose_end_arrives_after_its_senders_next_hello_is_sent_again_and_counts(
    desk: ManualCoordinator, model: TinyModel
) -> None:
    """The line broke behind the report (or its last slice), and the sender is back before anybody has heard it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    hello: Hello = model.hello("a")
    before, after = (Caller(context, desk.federation.endpoint) for _ in range(2))
    try:
        before.send(hello)
        desk.turn_until(lambda: bool(ordered(before)), "the first order", before)
        report = update_of(ordered(before)[0])
        last = report.weights.size_bytes // SLICE_BYTES * SLICE_BYTES
        before.holds = lambda message: (
            message.KIND == "update" if report.weights.transfer is None else is_slice_at(message, last)
        )
        before.send(report)
        desk.turn_until(lambda: bool(before.stream.outbound), "the end of the report to be due", before)
        before.holds = lambda _message: False
        before.flush()
        endings = desk.take(1)
        line = endings[0].connection
        after.send(hello)
        greetings: list[Received] = []
        while not greetings:  # whatever else was under way on the old line is heard after the hello, too
            taken = desk.take(1)
            greetings += [one for one in taken if one.connection != line]
            endings += [one for one in taken if one.connection == line]
        desk.receive([*greetings, *endings])
        desk.turn_until(lambda: bool(ordered(after)), "the order once more", after)
        after.send(report)
        desk.turn_until(desk.has_update, "the update to count", before, after)
        assert desk.federation.machine.state.members["a"].update_round == report.round_no
    finally:
        for caller in (before, after):
            caller.socket.close()
        context.term()


def is_slice_at(message: Message, offset: int) -> bool:
    return isinstance(message, Slice) and message.offset == offset
