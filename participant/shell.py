"""The participant's I/O thread: waits for the socket, finished work or the machine's deadline, and performs the
machine's actions.

It is the only owner of the line, and it never trains, so heartbeats continue during an hour-long epoch. It decides
nothing: the machine decides what to do, the post what may be sent. Events are handled one at a time: the machine has
acted on a message before the next one is checked, because the meaning of the next one depends on it.
"""

from __future__ import annotations

import contextvars
import queue
import socket
import threading
import time
from collections.abc import Mapping

import structlog
import zmq

from fedap_core.errors import InvalidInput
from fedap_core.exit_codes import WRONG_INPUT
from participant.decisions.actions import (
    Action,
    CloseLine,
    DropPayload,
    Emit,
    End,
    Log,
    OpenLine,
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
    NotUnderstood,
    PayloadMoved,
    Ticked,
)
from participant.decisions.machine import AgentMachine
from participant.training.worker import Worker
from participant.wire.departure import MessageSender
from participant.wire.line import LAST_WORDS_MS, Address, Context, Line
from participant.wire.message_stream import MessageStream
from participant.wire.sent_log import SentLog
from protocol.errors import LocalProtocolError
from protocol.messages import Message

log = structlog.get_logger()

_MESSAGES_AT_ONCE = 64
"""Messages taken from the socket before deadlines are checked again: slices must not starve heartbeats."""

_SHORTEST_RETRY_S = 0.05
"""Shortest wait before retrying messages that a full disk delays."""


class Shell:
    """Call `run` on a separate thread; it returns when the machine ends. `post` accepts events from any thread.

    context: the ZeroMQ context, if several participants of one process share it; otherwise the shell creates its own.
    """

    def __init__(
        self, *, address: Address, machine: AgentMachine, sent: SentLog, context: Context | None = None
    ) -> None:
        self._address = address
        self._machine = machine
        self._sent = sent
        self._departure = MessageSender(sent)
        self._stream = MessageStream(machine.wants)
        self._line: Line | None = None
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._waker, self._wakened = socket.socketpair()
        self._waker.setblocking(False)
        self._wakened.setblocking(False)
        self._end: End | None = None
        self._context = context
        self._is_own_context = context is None

    def post(self, event: Event) -> None:
        """Queue an event; callable from any thread."""
        self._events.put(event)
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # enough wake-ups are pending, or the thread has ended

    def run(self, worker: Worker) -> End:
        """Run the event loop until the end; the caller closes the worker."""
        context = self._context = self._context or zmq.Context()
        try:
            self._perform(self._machine.start(time.monotonic()), worker)
            while self._end is None:
                self._wait()
                self._take_posted(worker)
                self._receive(worker)
                self._handle(Ticked(), worker)
                self._flush()
            return self._end
        finally:
            self._close_line(last_words=True)
            if self._is_own_context:
                context.term()
            self._sent.close()
            self._waker.close()
            self._wakened.close()

    # --- waiting ------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wakened, zmq.POLLIN)
        if self._line is not None:
            poller.register(self._line.monitor, zmq.POLLIN)
            if self._line.is_up:
                writing = zmq.POLLOUT if self._stream.outbound and self._departure.retry_at is None else 0
                poller.register(self._line.socket, zmq.POLLIN | writing)
        deadline = self._machine.next_deadline()
        pause_s = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if self._departure.retry_at is not None and self._stream.outbound:
            pause_s = min(pause_s, max(_SHORTEST_RETRY_S, self._departure.retry_at - time.monotonic()))
        poller.poll(int(pause_s * 1000) + 1)

    def _take_posted(self, worker: Worker) -> None:
        """Handle everything that other threads have posted, without waiting."""
        try:
            while self._wakened.recv(4096):
                continue
        except BlockingIOError:
            pass  # emptied
        while not self._events.empty():
            self._handle(self._events.get(), worker)

    def _receive(self, worker: Worker) -> None:
        """Handle everything received on the line, message by message, then changes of the line itself."""
        line = self._line
        if line is None:
            return
        if line.is_up:
            self._receive_messages(line, worker)
        while self._line is line and line.monitor.poll(0):
            was_up, reason = line.is_up, line.read_monitor()
            if reason is not None:
                self._handle(LineLost(reason=reason), worker)
            elif line.is_up and not was_up:
                self._handle(LineOpened(), worker)

    def _receive_messages(self, line: Line, worker: Worker) -> None:
        for _ in range(_MESSAGES_AT_ONCE):
            frames = line.receive() if self._line is line else None
            if frames is None:
                return
            complete = self._stream.receive(frames)
            refused, announced = self._stream.refused, self._stream.announced
            if self._stream.moved:
                self._handle(PayloadMoved(), worker)
            if refused:
                log.warning("message.faulty", reason=refused)
                self._handle(NotUnderstood(reason=refused), worker)
            if announced is not None:
                self._handle(Announced(message=announced), worker)
            for message in complete:
                self._handle(MessageReceived(message=message), worker)
            self._flush()

    # --- acting -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event, worker: Worker) -> None:
        self._perform(self._machine.handle(event, time.monotonic()), worker)

    def _perform(self, actions: list[Action], worker: Worker) -> None:
        """Perform the actions in order."""
        for action in actions:
            match action:
                case Emit(message=message):
                    self._send(message)
                case OpenLine():
                    self._open_line()
                case CloseLine():
                    self._close_line(last_words=any(isinstance(one, End) for one in actions))
                case DropPayload():
                    self._stream.release()
                case Log():
                    _log(action.name, action.facts, warn=action.warn)
                case End():
                    self._end = action
                case Prepare() | Work() | StopWork():
                    _hand_over(action, worker)

    def _send(self, message: Message) -> None:
        """Send a message unless the coordinator has made it obsolete in the meantime, by a `finish` whose payload is
        arriving. The machine learns of the finish later, and sends again what still matters."""
        try:
            self._stream.send(message)
        except LocalProtocolError as error:
            log.info("message.withheld", kind=message.KIND, reason=str(error))
            return
        self._flush()

    def _open_line(self) -> None:
        self._close_line()
        if self._context is not None:
            self._line = Line(self._context, self._address)

    def _close_line(self, *, last_words: bool = False) -> None:
        if self._line is not None:
            if last_words:
                self._flush()
            self._line.close(linger_ms=LAST_WORDS_MS if last_words else 0)
            self._line = None
        self._stream.lost()

    def _flush(self) -> None:
        """Pass as much to the socket as it accepts; the rest waits. A message that cannot be recorded is not sent: a
        full disk is waited for, and any other disk error ends the participant, which can be restarted from its state
        on disk."""
        try:
            self._departure.flush(self._line, self._stream.outbound, time.monotonic())
        except OSError as error:
            self._end = End(code=WRONG_INPUT, reason=f"cannot record what is sent: {error}")


def _hand_over(action: Prepare | Work | StopWork, worker: Worker) -> None:
    match action:
        case Prepare(welcome=welcome):
            structlog.contextvars.bind_contextvars(run=welcome.run, participant=welcome.participant)
            worker.prepare(welcome)
        case Work(order=order):
            structlog.contextvars.bind_contextvars(round=order.round_no + (order.KIND != "finish"))
            log.info("order.begun", order=order.KIND)
            worker.work(order)
        case StopWork():
            worker.stop()


def _log(name: str, facts: Mapping[str, object], *, warn: bool) -> None:
    (log.warning if warn else log.info)(name, **facts)


def run_in_thread(shell: Shell, worker: Worker) -> tuple[threading.Thread, queue.SimpleQueue[End | BaseException]]:
    """Start the I/O thread; the queue receives its End, or the exception that stopped it."""
    ended: queue.SimpleQueue[End | BaseException] = queue.SimpleQueue()

    def body() -> None:
        try:
            ended.put(shell.run(worker))
        except InvalidInput as error:  # a sentence for the operator, who needs no traceback
            ended.put(error)
        except BaseException as error:
            ended.put(error)
            raise

    context = contextvars.copy_context()  # this thread logs under the caller's participant
    thread = threading.Thread(target=context.run, args=(body,), name="dealer", daemon=True)
    thread.start()
    return thread, ended
