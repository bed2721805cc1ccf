"""The I/O thread at a real socket: what it has to say may be overtaken by what the coordinator said meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zmq

from participant.decisions.actions import End, Order
from participant.decisions.events import Event, LeaveRequested, Reported
from participant.decisions.machine import AgentMachine
from participant.decisions.reconnection import UNREADABLE_ANSWERS, ConnectionState, Timeouts
from participant.shell import Shell, run_in_thread
from participant.training.worker import Worker
from participant.wire.line import Address
from participant.wire.message_stream import MessageStream
from participant.wire.sent_log import SentLog
from protocol.codec import encode
from protocol.contracts import Buffer
from protocol.messages import Finish, HelloRequired, Message, Side, Step, Welcome
from protocol.tensors import TensorSet
from tests.unit.participant.agents import TIMEOUTS, WEIGHTS, beat, finish, goodbye, prepared, train, update
from tests.unit.protocol.samples import HELLO, RUN, WELCOME

ROUND = WELCOME.round_no + 1
LARGE = TensorSet.of({"w": np.zeros(3 << 20, dtype=np.float32)})
PATIENCE_MS = 30_000


class Office:
    """A coordinator's end of the line, which says what it is told to say."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.linger = 0
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self._stream = MessageStream(lambda _message: True, Side.COORDINATOR)
        self._connection = b""
        self.received: list[str] = []
        self.ended: queue.SimpleQueue[End | BaseException]

    def end(self) -> End:
        """How the participant ended."""
        ended = self.ended.get(timeout=PATIENCE_MS / 1000)
        assert isinstance(ended, End), ended
        return ended

    def send(self, message: Message) -> None:
        self._stream.send(message)
        self._flush()

    def send_frames(self, frames: Sequence[Buffer]) -> None:
        """Past the law: what a coordinator says that knows more than this one."""
        self.socket.send_multipart([self._connection, *frames])

    def receive(self) -> list[Message]:
        """The next message, if it is one that is complete."""
        assert self.socket.poll(PATIENCE_MS), f"nothing more was said after {self.received}"
        self._connection, *frames = self.socket.recv_multipart()
        messages = self._stream.receive(frames)
        self.received += [message.KIND for message in messages]
        self._flush()
        return messages

    def receive_until(self, kind: str) -> None:
        while kind not in self.received:
            self.receive()

    def _flush(self) -> None:
        while self._stream.outbound:
            self.socket.send_multipart([self._connection, *self._stream.outbound.popleft().frames])

    def close(self) -> None:
        self.socket.close()
        self._context.term()


class HoldingWorker(Worker):
    """Answers orders with empty reports. The first order keeps the I/O thread until the coordinator's next words lie in
    its socket; then its report is there as well, before anything is heard."""

    def __init__(self) -> None:
        self.shell: Shell
        self.orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self.is_at_work = threading.Event()
        self.was_overtaken = threading.Event()
        self.then: Event = Reported(report=update(ROUND))

    def prepare(self, _welcome: Welcome) -> None:
        self.shell.post(prepared())

    def work(self, order: Order) -> None:
        self.orders.put(order)
        if isinstance(order, Finish):
            self.shell.post(Reported(report=goodbye(ROUND)))
        elif not self.is_at_work.is_set():
            self.is_at_work.set()
            assert self.was_overtaken.wait(PATIENCE_MS / 1000)
            line = self.shell._line
            assert line is not None
            assert line.socket.poll(PATIENCE_MS)
            self.shell.post(self.then)

    def stop(self) -> None:
        return


@pytest.fixture
def desk() -> HoldingWorker:
    return HoldingWorker()


class HoldingLog(SentLog):
    """A record that keeps the I/O thread at its second hello until what the coordinator said lies in its socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.shell: Shell
        self.is_reached, self.is_open = threading.Event(), threading.Event()
        self._hellos = 0

    def note(self, message: Message, frames: Sequence[Buffer]) -> None:
        self._hellos += message.KIND == "hello"
        if message.KIND == "hello" and self._hellos == 2 and not self.is_open.is_set():
            self.is_reached.set()
            assert self.is_open.wait(PATIENCE_MS / 1000)
            line = self.shell._line
            assert line is not None
            assert line.socket.poll(PATIENCE_MS)
        super().note(message, frames)


def shell_at(endpoint: str, record: Path | SentLog, timeouts: Timeouts = TIMEOUTS, **sizes: int) -> Shell:
    machine = AgentMachine(
        hello=HELLO, line=ConnectionState(timeouts, np.random.default_rng(0)), model_bytes=LARGE.size_bytes
    )
    sent = record if isinstance(record, SentLog) else SentLog(record, **sizes)
    return Shell(address=Address(endpoint=endpoint), machine=machine, sent=sent)


@pytest.fixture
def gate(tmp_path: Path) -> HoldingLog:
    made = HoldingLog(tmp_path / "sent.jsonl")
    made.is_open.set()
    return made


@pytest.fixture
def office(desk: HoldingWorker, gate: HoldingLog) -> Iterator[Office]:
    """A member at work on its first order, and its coordinator."""
    made = Office()
    desk.shell = gate.shell = shell_at(made.endpoint, gate)
    thread, made.ended = run_in_thread(desk.shell, desk)
    made.receive_until("hello")
    made.send(replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS))
    made.send(train(ROUND))
    assert desk.is_at_work.wait(PATIENCE_MS / 1000)
    yield made
    desk.shell.post(LeaveRequested(reason="the test is over", code=1))
    thread.join(PATIENCE_MS / 1000)
    made.close()


def finish_politely(office: Office) -> None:
    office.receive_until("goodbye")
    office.send(beat(have=Step(kind="goodbye", round_no=ROUND)))


@pytest.mark.parametrize("weights", [WEIGHTS, LARGE], ids=["small", "in slices"])
def test_a_report_that_the_end_of_the_run_overtook_is_withheld(
    office: Office, desk: HoldingWorker, weights: TensorSet
) -> None:
    """Without barriers, members at work are told to finish; a large model is on its way for long after its header."""
    office.send(Finish(run=RUN, round_no=ROUND, reason="rounds", weights=weights))
    desk.was_overtaken.set()
    finish_politely(office)
    assert "update" not in office.received
    assert office.end().code == 0


def test_a_report_that_met_hello_required_is_sent_after_the_next_welcome(office: Office, desk: HoldingWorker) -> None:
    office.send(HelloRequired())
    desk.was_overtaken.set()
    office.received.clear()
    office.receive_until("hello")
    office.send(replace(WELCOME, heartbeat_s=1.0, initial=WEIGHTS))
    office.receive_until("update")
    office.send(finish(ROUND))
    finish_politely(office)
    assert office.end().code == 0


def test_an_order_that_lies_in_the_socket_with_its_welcome_is_worked_on_with_all_its_bytes(
    office: Office, desk: HoldingWorker, gate: HoldingLog
) -> None:
    """The order offers its weights; whether they are worth fetching depends on the welcome before it."""
    gate.is_open.clear()
    office.send(HelloRequired())
    desk.was_overtaken.set()
    assert gate.is_reached.wait(PATIENCE_MS / 1000)
    again, order = replace(WELCOME, heartbeat_s=1.0, initial=None), replace(train(ROUND + 1), weights=LARGE)
    for message in (again, order):
        office.send_frames(encode(message))
    gate.is_open.set()
    office.received.clear()
    office.receive_until("hello")
    office.send(again)
    office.send(order)
    assert desk.orders.get(timeout=PATIENCE_MS / 1000).round_no == ROUND
    while desk.orders.empty():
        office.receive()
    begun = desk.orders.get()
    assert begun.weights is not None
    assert begun.weights.flat().tobytes() == LARGE.flat().tobytes()


def test_participant_without_a_run_stops_when_asked(office: Office, desk: HoldingWorker) -> None:
    """`leave` may not be said before the next hello, and need not be."""
    desk.then = LeaveRequested(reason="SIGTERM", code=143)
    office.send(HelloRequired())
    desk.was_overtaken.set()
    assert office.end().code == 143


def test_what_cannot_be_recorded_does_not_leave(desk: HoldingWorker, tmp_path: Path) -> None:
    """/dev/full takes no byte, as a full disk does; no room is set aside. The participant waits until it is stopped."""
    office, record = Office(), tmp_path / "full.jsonl"
    record.symlink_to("/dev/full")
    desk.shell = shell_at(office.endpoint, record, reserve_bytes=0)
    thread, office.ended = run_in_thread(desk.shell, desk)
    assert not office.socket.poll(300)
    desk.shell.post(LeaveRequested(reason="enough", code=143))
    assert office.end() == End(code=143, reason="enough")
    thread.join(PATIENCE_MS / 1000)
    assert not office.socket.poll(200)
    office.close()


def test_a_welcome_that_cannot_be_read_ends_the_participant_after_some_hellos(
    desk: HoldingWorker, tmp_path: Path
) -> None:
    """Every hello is answered by a welcome that lacks its last bytes."""
    office = Office()
    hasty = replace(TIMEOUTS, answer_s=0.1)
    desk.shell = shell_at(office.endpoint, SentLog(tmp_path / "sent.jsonl"), hasty)
    thread, office.ended = run_in_thread(desk.shell, desk)
    for _ in range(UNREADABLE_ANSWERS):
        office.received.clear()
        office.receive_until("hello")
        office.send_frames([bytes(encode(WELCOME)[0])[:-9]])
    end = office.end()
    thread.join(PATIENCE_MS / 1000)
    office.close()
    assert (end.code, "hellos in a row got no valid answer: " in end.reason) == (2, True)
