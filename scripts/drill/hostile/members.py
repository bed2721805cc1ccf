"""A hostile member on the list: it follows the protocol's form, but reports what no honest member would.

As in `floods`, each attack is one attempt, here one connection. Its reports follow from the given randomness; the
transport is the participant's own code.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedap_core.measures import measured_channels
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Measure, make_strategy
from participant.decisions.layouts import shared_layout
from participant.record.model_file import read_spec
from participant.wire.keys import read_keys
from participant.wire.line import Address, Line, shared_context
from participant.wire.message_stream import MessageStream
from protocol.codec import encode
from protocol.contracts import Buffer
from protocol.messages import Anchor, Finish, Goodbye, Hello, Message, Reject, Stats, Train, Update
from protocol.tensors import TensorSet
from scripts.bench.light_peers import hello_of
from scripts.drill.hostile.floods import Attack

NAME = "d"
"""Name of the hostile member, which is on the list beside the others."""

SAMPLES = 512
LASTS_S = 20.0
"""Longest duration of one connection."""
SHIFTED = 5
"""Updates for other rounds, per order."""
HANGS_UP_S = 0.5
"""Pause between a report and closing the connection, for members that do that."""
REJECTED_S = 0.2
"""Pause after a rejected hello: a flood of hellos is another drill."""


@dataclass(frozen=True, kw_only=True)
class Liar:
    """What a hostile member sends instead of an honest report."""

    hello: Callable[[Hello, random.Random], Hello] = lambda hello, _rng: hello
    mean: float = 0.0
    value: Callable[[random.Random], float] = lambda _rng: 9e5
    shift: Callable[[random.Random], int] | None = None
    """By how many rounds its updates miss the requested one; the participant's own checks are bypassed."""
    one_report: bool = False
    """Whether it disconnects after every report, to return with another hello."""


def _other_count(hello: Hello, rng: random.Random) -> Hello:
    return replace(hello, train_samples=SAMPLES + rng.choice((0, 100)))


LIARS: dict[str, Liar] = {
    "values": Liar(value=lambda rng: rng.choice((9e5, -9e5, float("nan"), float("inf"), 1e38))),
    "statistics": Liar(mean=3e38),
    "counts": Liar(hello=lambda hello, rng: replace(hello, train_samples=rng.choice((1 << 53, 10**9, 10**12)))),
    "alternating": Liar(hello=_other_count, one_report=True),
    "rounds": Liar(shift=lambda rng: rng.choice((1, 2, 7, 1000))),
}


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What a listed member has. folder: with its key and the coordinator's; None: there are no keys."""

    initial: Path
    folder: Path | None

    def address(self, endpoint: str) -> Address:
        if self.folder is None:
            return Address(endpoint=endpoint, insecure=True)
        public = (self.folder / "coordinator.public").read_text(encoding="utf-8").strip()
        return Address(endpoint=endpoint, keys=read_keys(self.folder / "keys" / f"{NAME}.key", public))


class _Peer:
    """One connection of the hostile member."""

    def __init__(self, membership: Membership, endpoint: str) -> None:
        self._line = Line(shared_context(1), membership.address(endpoint))
        self._stream = MessageStream(lambda _message: True)
        self.is_gone = False

    def send(self, message: Message) -> None:
        self._stream.send(message)

    def received(self) -> list[Message]:
        """Return the complete messages received; sends what is due and waits for a moment."""
        while self._line.monitor.poll(0):
            self.is_gone = self.is_gone or self._line.read_monitor() is not None
        found: list[Message] = []
        while self._line.is_up and (frames := self._line.receive()) is not None:
            found += self._stream.receive(frames)
        while self._line.is_up and self._stream.outbound and self._line.can_send():
            self._line.send(self._stream.outbound.popleft().frames)
        (self._line.socket if self._line.is_up else self._line.monitor).poll(10)
        return found

    def pour(self, messages: Iterable[Sequence[Buffer]]) -> None:
        """Send arbitrary frames, bypassing the protocol."""
        for frames in messages:
            if self._line.is_up and self._line.can_send():
                self._line.send(frames)

    def close(self) -> None:
        self._line.close()


def lying(name: str, membership: Membership) -> Attack:
    """Return an attack that answers every order with a lie until it is excluded, then returns."""
    liar, spec = LIARS[name], read_spec(membership.initial)

    def attack(endpoint: str, rng: random.Random) -> int:
        peer, sent, until = _Peer(membership, endpoint), 0, time.monotonic() + LASTS_S
        try:
            peer.send(liar.hello(replace(hello_of(membership.initial, NAME), train_samples=SAMPLES), rng))
            while not peer.is_gone and time.monotonic() < until:
                for message in peer.received():
                    if isinstance(message, Reject):
                        until = min(until, time.monotonic() + REJECTED_S)
                    if isinstance(message, Finish):
                        peer.send(Goodbye(run=message.run, round_no=message.round_no, scores=()))
                    if isinstance(message, Anchor | Train):
                        sent += 1
                        if isinstance(message, Train) and liar.shift is not None:
                            peer.pour([encode(_misplaced(message, liar.shift(rng))) for _ in range(SHIFTED)])
                            continue
                        peer.send(_report(message, liar, spec, rng))
                        until = min(until, time.monotonic() + HANGS_UP_S) if liar.one_report else until
            return sent
        finally:
            peer.close()

    return attack


def _report(order: Anchor | Train, liar: Liar, spec: ModelSpec, rng: random.Random) -> Message:
    if isinstance(order, Anchor):
        moments: dict[str, np.ndarray] = {}
        for layer, size in measured_channels(spec, Measure(order.measure)).items():
            moments[f"{layer}/count"] = np.array(SAMPLES, dtype=np.int64)
            moments[f"{layer}/mean"] = np.full(size, liar.mean)
            moments[f"{layer}/variance"] = np.ones(size)
        return Stats(run=order.run, round_no=order.round_no, samples=SAMPLES, moments=TensorSet.of(moments))
    value = liar.value(rng)
    layout = shared_layout(spec, make_strategy("fedap"))
    weights = TensorSet.of({one.name: np.full(one.shape, value, dtype=np.float32) for one in layout.specs})
    return Update(run=order.run, round_no=order.round_no, steps=3, train_loss=1.0, scores=(), weights=weights)


def _misplaced(order: Train, shift: int) -> Update:
    weights = TensorSet.of({"w": np.zeros(1, dtype=np.float32)})
    return Update(run=order.run, round_no=order.round_no + shift, steps=3, train_loss=1.0, scores=(), weights=weights)


def keyed_garbage(membership: Membership) -> Attack:
    """Return an attack that sends random messages on connections that the coordinator's list admits."""

    def attack(endpoint: str, rng: random.Random) -> int:
        peer, sent, until = _Peer(membership, endpoint), 0, time.monotonic() + 2.0
        try:
            while not peer.is_gone and time.monotonic() < until:
                peer.pour([rng.randbytes(rng.randint(1, 400))] for _ in range(100))
                sent += 100
                peer.received()
            return sent
        finally:
            peer.close()

    return attack
