"""A participant that knows the protocol and nothing else: real DEALER socket, numpy weights, «training» by a function.

It answers orders as the specification says, in a thread of its own, and keeps what it was given. Faults are made by
tests: they cut, repeat, or speak through `raw`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import zmq

from fedap_core.arrays import Float32Array
from protocol.codec import decode, encode, offers
from protocol.conversation import Conversation, Freshness
from protocol.delivery import Outbox
from protocol.messages import (
    ORDERS,
    REPORTS,
    Anchor,
    Cancel,
    Error,
    Finish,
    Goodbye,
    Grant,
    Heartbeat,
    Hello,
    HelloRequired,
    Message,
    Reject,
    Score,
    Side,
    Slice,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import Array, TensorSet
from protocol.traffic import Dispatch, Intake, To
from protocol.transfer import Fate

Work = Callable[[int, Float32Array], Float32Array]
"""(round, weights delivered) -> the update."""

REPEAT_S = 0.5


@dataclass(kw_only=True)
class PeerLog:
    """What a peer has seen."""

    delivered: dict[int, Float32Array] = field(default_factory=dict)
    final: Float32Array | None = None
    finish_reason: str | None = None
    rejected: Reject | None = None
    errors: list[Error] = field(default_factory=list)
    welcomes: int = 0
    trained: list[int] = field(default_factory=list)


class ThreadedPeer(threading.Thread):
    """Runs until it has said goodbye and the coordinator has it, it is rejected, or `stop` is called."""

    def __init__(
        self,
        endpoint: str,
        hello: Hello,
        *,
        work: Work,
        moments: dict[str, Array] | None = None,
        keys: tuple[str, str, str] | None = None,
        scores: Callable[[int], tuple[Score, ...]] = lambda _round_no: (),
    ) -> None:
        """scores: what a report of this round says about the model that was delivered for it."""
        super().__init__(name=hello.name, daemon=True)
        self.scores = scores
        self.endpoint, self.hello, self.work, self.moments, self.keys = endpoint, hello, work, moments or {}, keys
        self.log = PeerLog()
        self.ended = threading.Event()
        """Set when it has nothing more to do, or was stopped."""
        self._stopping = threading.Event()
        self._reset()

    def _reset(self) -> None:
        self._talk = Conversation(Side.PARTICIPANT)
        self._intake, self._dispatch, self._outbox = Intake(), Dispatch(), Outbox()
        self._bytes: dict[str, bytearray] = {}
        self._sending: dict[str, memoryview] = {}
        self._pending: Message | None = None
        self._have: Step | None = None
        self._report: Message | None = None
        self._ready = False
        self._moved = False

    def stop(self) -> None:
        """End without a word, as a killed process does."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        context = zmq.Context()
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 0
        if self.keys is not None:
            server, public, secret = (key.encode() for key in self.keys)
            self._socket.curve_serverkey, self._socket.curve_publickey = server, public
            self._socket.curve_secretkey = secret
        self._socket.connect(self.endpoint)
        try:
            self._live()
        finally:
            self._socket.close()
            context.term()
            self.ended.set()

    def _live(self) -> None:
        beat_at = 0.0
        while not self._stopping.is_set() and not self._is_done():
            if time.monotonic() >= beat_at:
                self._beat()
                beat_at = time.monotonic() + REPEAT_S
            if self._socket.poll(20):
                self._receive(decode(self._socket.recv_multipart()))

    def _is_done(self) -> bool:
        said = isinstance(self._report, Goodbye) and self._outbox.held is None
        return said or self.log.rejected is not None

    def _beat(self) -> None:
        if not self._ready:
            if not self._moved:  # nothing came since the last time: the welcome, or its payload, is lost
                self._send(self.hello)
            self._moved = False
            return
        want = None
        if self._report is None or self._outbox.held is None or self._have is None:
            want = self._next_order()
        self._send(Heartbeat(run=str(self._talk.run), round_no=max(self._talk.ordered, 0), have=self._have, want=want))

    def _next_order(self) -> Step:
        if self._have is None:
            return Step(kind="anchor", round_no=0)
        later = Step(kind="train", round_no=self._have.round_no + (self._have.kind != "anchor"))
        return Step(kind="finish", round_no=self._have.round_no) if self._have.kind == "finish" else later

    def _send(self, message: Message) -> None:
        self._talk.send(message)
        for offer in offers_of(message):
            self._sending[str(offer.transfer)] = memoryview(offer.data or b"")
            self._dispatch.offer("c", str(offer.transfer), offer.size_bytes)
        with contextlib.suppress(zmq.Again):  # nobody there: as good as lost on the way
            self._socket.send_multipart(encode(message), zmq.NOBLOCK, copy=False)

    def _receive(self, message: Message) -> None:
        if self._talk.receive(message) is Freshness.STALE:
            return
        if isinstance(message, HelloRequired):
            self._ready = False
            self._send(self.hello)
        elif isinstance(message, Reject | Error):
            self._note(message)
        elif isinstance(message, Grant):
            for one in self._dispatch.granted("c", message):
                span = one.what
                self._send(span.filled(self._sending[span.transfer][span.start : span.stop]))
        elif isinstance(message, Slice):
            self._slice(message)
        elif isinstance(message, Heartbeat):
            self._hear_beat(message)
        elif not isinstance(message, Cancel):
            self._take(message)

    def _hear_beat(self, beat: Heartbeat) -> None:
        want, report = beat.want, self._report
        said = None if report is None else (report.KIND, getattr(report, "round_no", None))
        if want is not None and self._outbox.held is None and (want.kind, want.round_no) == said:
            self._outbox.hold(want)  # the coordinator had it, and has lost it
        if self._outbox.received(beat) is not None and report is not None:
            self._send(report)

    def _note(self, message: Reject | Error) -> None:
        if isinstance(message, Reject):
            self.log.rejected = message
        else:
            self.log.errors.append(message)

    def _take(self, message: Message) -> None:
        wanted = offers(message)
        if not wanted:
            self._obey(message)
            return
        if self._is_news(message):
            if self._pending is None or encode(self._pending)[0] != encode(message)[0]:
                self._intake.drop("c")  # what an earlier order offered is of no more use
            self._pending = message
            for one in wanted:
                self._reserve(one)
                self._grant(self._intake.offered("c", str(one.transfer), one.size_bytes))

    def _is_news(self, message: Message) -> bool:
        if isinstance(message, Welcome):
            return True
        step = Step(kind=message.KIND, round_no=int(getattr(message, "round_no", 0)))
        return self._ready and (self._have is None or step.place > self._have.place)

    def _slice(self, piece: Slice) -> None:
        arrival = self._intake.arrived("c", piece)
        if arrival.fate is Fate.TAKEN:
            self._moved = True
            self._store(piece)
        self._grant(arrival.grants)
        if arrival.complete and self._pending is not None:
            message, self._pending = self._pending, None
            self._obey(message)

    def _reserve(self, tensors: TensorSet) -> None:
        self._bytes.setdefault(str(tensors.transfer), bytearray(tensors.size_bytes))

    def _store(self, piece: Slice) -> None:
        self._bytes[piece.transfer][piece.offset : piece.offset + piece.data.nbytes] = piece.data

    def _grant(self, grants: tuple[To[Grant], ...]) -> None:
        for one in grants:
            self._send(one.what)

    def _filled(self, tensors: TensorSet) -> TensorSet:
        return tensors if tensors.data is not None else tensors.filled(self._bytes[str(tensors.transfer)])

    def _obey(self, message: Message) -> None:
        if isinstance(message, Welcome):
            self._ready = True
            self.log.welcomes += 1
            self._encoding = message.plan.encoding
            return
        if not self._is_news(message):
            return
        self._have = step = Step(kind=message.KIND, round_no=int(getattr(message, "round_no", 0)))
        self._report = self._answer(message)
        self._outbox.hold(Step(kind=REPORTS[ORDERS.index(step.kind)], round_no=step.round_no))
        self._send(self._report)

    def _answer(self, message: Message) -> Message:
        run = str(self._talk.run)
        if isinstance(message, Anchor):
            moments = TensorSet.of(self.moments)
            return Stats(run=run, round_no=message.round_no, samples=self.hello.train_samples, moments=moments)
        if isinstance(message, Finish):
            self.log.finish_reason = message.reason
            self.log.final = None if message.weights is None else self._filled(message.weights).flat().copy()
            return Goodbye(run=run, round_no=message.round_no, scores=self.scores(message.round_no))
        if not isinstance(message, Train):
            raise TypeError(f"no order: {message.KIND}")
        weights = self._filled(message.weights)
        delivered = weights.flat().copy()
        self.log.delivered[message.round_no] = delivered
        self.log.trained.append(message.round_no)
        update = np.ascontiguousarray(self.work(message.round_no, delivered), dtype=np.float32)
        statistics = TensorSet.of(self.moments) if message.measure == "running" else None
        return Update(
            run=run,
            round_no=message.round_no,
            steps=1,
            train_loss=0.5,
            scores=self.scores(message.round_no),
            weights=TensorSet.of_flat(weights.layout, update, weights.encoding),
            statistics=statistics,
        )


def offers_of(message: Message) -> list[TensorSet]:
    """Sets of a message that are too large for it."""
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    return [value for value in values if isinstance(value, TensorSet) and value.transfer is not None]
