"""Participants that send messages and do not train: the real line and post of a participant, without a model.

For measurements of the wire and the coordinator alone. They answer when the caller says so, so that the caller times
exactly what it requested. Nothing here reconnects: a broken line ends the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from participant.decisions.layouts import floating_layout, model_layout
from participant.record.model_file import read_spec
from participant.wire.line import Address, Context, Line
from participant.wire.message_stream import MessageStream
from participant.wire.sent_log import SentLog
from protocol.messages import Hello, Message, Train, Update
from protocol.tensors import Layout, TensorSet, names_digest

PATIENCE_S = 120.0
"""Longest wait for an expected answer."""
_TURN_MS = 1
_TURN_ALONE_MS = 100
"""Longest waits for something to arrive at the first of several peers, which stands for all, and at a peer alone."""


def hello_of(initial: Path, name: str, *, run: str | None = None) -> Hello:
    """Return the hello of a participant with that model file."""
    spec = read_spec(initial)
    return Hello(
        name=name,
        instance=names_digest((name,)),
        software="bench",
        run=run,
        model_layout=model_layout(spec).digest,
        classes=names_digest(spec.classes),
        input_shape=spec.input_shape,
        preprocessing=spec.preprocessing.digest,
        train_samples=512,
        test_samples=2,
    )


def layout_of(initial: Path) -> Layout:
    """Return the layout of an update if all tensors are shared."""
    return floating_layout(read_spec(initial))


class LightPeer:
    """One participant's end of a line. Closed at the end of the `with` block."""

    def __init__(self, context: Context, address: Address, hello: Hello, sent: Path) -> None:
        self._line = Line(context, address)
        self._sent = SentLog(sent)
        self._stream = MessageStream(lambda _message: True)
        self._hello = hello
        self.order: Train | None = None
        """The latest complete order that has not been answered yet."""
        """When it was complete, by the monotonic clock."""

    def send(self, message: Message) -> None:
        """Queue a message and send as much as the socket accepts."""
        self._stream.send(message)
        self._flush()

    def turn(self) -> None:
        """Receive what has arrived, send what is due; never waits."""
        while self._line.monitor.poll(0):
            reason = self._line.read_monitor()
            if reason is not None:
                raise RuntimeError(f"the line of {self._hello.name} is gone: {reason}")
            if self._line.is_up:  # not at the earlier event of the bare connection: a second hello would start over
                self.send(self._hello)
        while self._line.is_up and (frames := self._line.receive()) is not None:
            for message in self._stream.receive(frames):
                if isinstance(message, Train):
                    self.order = message
            if self._stream.refused:
                raise RuntimeError(f"a message to {self._hello.name} is not understood: {self._stream.refused}")
            self._flush()
        self._flush()

    def nap(self, timeout_ms: int) -> None:
        """Wait for something to arrive."""
        (self._line.socket if self._line.is_up else self._line.monitor).poll(timeout_ms)

    def report(self, weights: TensorSet) -> None:
        """Answer the current order."""
        if self.order is None:
            raise RuntimeError(f"{self._hello.name} has no order to answer")
        order, self.order = self.order, None
        self.send(Update(run=order.run, round_no=order.round_no, steps=16, train_loss=0.5, scores=(), weights=weights))

    def put_away(self) -> None:
        """Release the weights of the current order: a real participant has copied them into its model by then."""
        if self.order is not None:
            self.order = replace(self.order, weights=TensorSet.of({}))

    def _flush(self) -> None:
        while self._line.is_up and self._stream.outbound and self._line.can_send():
            leaving = self._stream.outbound.popleft()
            self._sent.note(leaving.message, leaving.frames)  # as a participant does: part of the cost of sending
            self._line.send(leaving.frames)

    def __enter__(self) -> LightPeer:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._line.close()
        self._sent.close()


def wait_until(peers: Sequence[LightPeer], done: Callable[[], bool]) -> None:
    """Let peers receive and send until a condition holds."""
    until = time.monotonic() + PATIENCE_S
    while not done():
        for peer in peers:
            peer.turn()
        if done():
            return
        if time.monotonic() > until:
            raise RuntimeError(f"nothing happened for {PATIENCE_S:.0f} s")
        peers[0].nap(_TURN_MS if len(peers) > 1 else _TURN_ALONE_MS)
