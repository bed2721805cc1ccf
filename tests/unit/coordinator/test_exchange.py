"""A connection that has ended, at a real socket: reported once, after its last messages, whatever is sent to it
meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zmq

from coordinator.config import make_config
from coordinator.decisions.events import Event, HelloArrived, LeaveArrived, PeerLost
from coordinator.runs import open_run
from coordinator.wire.exchange import Exchange
from coordinator.wire.router import Router
from protocol.codec import encode
from protocol.messages import Heartbeat, Leave, Message, Welcome
from tests.support.cohorts import wait_until
from tests.support.federation import close_federation, fields
from tests.support.tiny_models import tiny_model
from tests.unit.protocol.samples import PLAN

RUN = "test"
WELCOME = Welcome(run=RUN, participant="a", round_no=0, heartbeat_s=1.0, plan=PLAN, initial=None)
BEAT = Heartbeat(run=RUN, round_no=0, have=None, want=None)


@dataclass(kw_only=True)
class Counter:
    """A coordinator's socket with one visitor, `a`, and nobody who decides anything."""

    router: Router
    exchange: Exchange
    visitor: zmq.Socket[bytes]
    connection: str = ""

    def say_as_visitor(self, message: Message) -> None:
        self.visitor.send_multipart([bytes(frame) for frame in encode(message)])

    def received(self) -> list[Event]:
        """What lies in the socket."""
        return [event for received in self.router.received(10) for event in self.exchange.receive(received, 0.0)]

    def hear_one(self) -> Event:
        events: list[Event] = []

        def came() -> bool:
            events.extend(self.received())
            return bool(events)

        wait_until(came, "a message", deadline_s=30)
        return events[0]

    def lose_visitor(self) -> None:
        """It goes without a word; the socket has noticed when this returns."""
        self.visitor.close(linger=1000)
        wait_until(lambda: not self.router.send(self.connection, [b""]), "the connection to end", deadline_s=30)


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Counter]:
    model = tiny_model()
    network = {"endpoint": "tcp://127.0.0.1:*"}
    config = make_config(fields(tmp_path / "run", model.write(tmp_path / "initial.safetensors"), network=network))
    federation = open_run(config)
    parts = federation.coordinator._parts
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    visitor = context.socket(zmq.DEALER)
    visitor.connect(federation.endpoint)
    made = Counter(router=parts.router, exchange=federation.exchange, visitor=visitor)
    made.say_as_visitor(model.hello("a"))
    hello_sent = made.hear_one()
    assert isinstance(hello_sent, HelloArrived)
    made.connection = hello_sent.connection
    made.exchange.send_welcome(made.connection, "a", WELCOME)
    yield made
    visitor.close(linger=0)
    context.term()
    close_federation(federation)


def test_a_loss_is_reported_one_turn_later_though_more_is_sent_to_it(counter: Counter) -> None:
    counter.lose_visitor()
    counter.exchange.send(counter.connection, BEAT)
    assert counter.exchange.is_waiting
    assert counter.exchange.flush() == []
    counter.exchange.send(counter.connection, BEAT)
    assert counter.exchange.flush() == [PeerLost(connection=counter.connection)]
    counter.exchange.send(counter.connection, BEAT)
    assert counter.exchange.flush() == []
    assert not counter.exchange.is_waiting


def test_its_last_messages_are_read_before_the_loss_is_reported(counter: Counter) -> None:
    counter.say_as_visitor(Leave(run=RUN, reason="enough"))
    counter.lose_visitor()
    counter.exchange.send(counter.connection, BEAT)
    assert counter.exchange.flush() == []
    assert isinstance(counter.hear_one(), LeaveArrived)
    assert counter.exchange.flush() == [PeerLost(connection=counter.connection)]


def test_nobody_is_told_of_who_was_forgotten(counter: Counter) -> None:
    counter.lose_visitor()
    counter.exchange.send(counter.connection, BEAT)
    counter.exchange.forget(counter.connection)
    assert counter.exchange.flush() == counter.exchange.flush() == []


def test_a_welcome_to_nobody_is_a_loss(counter: Counter) -> None:
    """A stranger may have been forgotten for others before it was welcomed."""
    counter.exchange.send_welcome("ff", "b", WELCOME)
    assert [counter.exchange.flush(), counter.exchange.flush()] == [[], [PeerLost(connection="ff")]]


def test_hellos_that_arrive_together_are_answered_once_and_nobody_is_blamed(counter: Counter) -> None:
    """Both are decided on before anything is said: the second welcome is not ours to regret, and not said."""
    counter.exchange.send_welcome(counter.connection, "a", WELCOME)
    assert counter.exchange.counts["outdated"] == 1
    assert counter.exchange.counts["withheld"] == 0
