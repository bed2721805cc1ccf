"""A coordinator for tests of the participant: a real ROUTER socket, raw protocol messages, mixing by `fedap_core`.

It waits for everybody, has no deadlines, no disk and no admission: barrier rounds and nothing else. `strike` is told
every moment (who, what was just heard from or said to them), so that a test can kill a process right there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import zmq

from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.nn.state import State
from fedap_core.strategies import Evidence, Measure, Phase, make_strategy, mixing_of_phase
from participant.decisions.layouts import model_layout, shared_layout
from participant.record.model_file import read_model
from participant.wire.message_stream import MessageStream
from protocol.delivery import Outbox
from protocol.messages import (
    Anchor,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequired,
    Leave,
    Message,
    Plan,
    Side,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import TensorSet

RUN = "test-run"
BEAT_S = 0.1
Strike = Callable[[str, str], None]
Order = Anchor | Train | Finish
Report = Stats | Update | Goodbye


@dataclass
class KnownMember:
    """What is known of one participant."""

    name: str
    outbox: Outbox = field(default_factory=Outbox)
    hello: Hello | None = None
    connection: bytes = b""
    order: Order | None = None
    reports: dict[str, Report] = field(default_factory=dict)


class Conductor:
    """`with Conductor(...) as conductor:` serves on a thread; `endpoint` is where to join; `wait` until it is over."""

    def __init__(
        self,
        *,
        plan: Plan,
        members: Sequence[str],
        initial: Path,
        anchor: Path | None = None,
        strike: Strike = lambda _who, _moment: None,
    ) -> None:
        self.plan = plan
        self.received: list[tuple[str, Message]] = []
        self._spec, self._initial, _ = read_model(initial)
        self._anchor = None if anchor is None else read_model(anchor)[1]
        self._strategy = make_strategy(plan.strategy, dict(plan.options))
        self._layout = shared_layout(self._spec, self._strategy)
        self._members = {name: KnownMember(name) for name in sorted(members)}
        self._streams: dict[bytes, MessageStream] = {}
        self._names: dict[bytes, str] = {}
        self._strike = strike
        self._mixing: FloatArray | None = None
        self._rows = [self._row(self._initial) for _ in members]
        self._over = threading.Event()
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="conductor", daemon=True)
        self.fault: BaseException | None = None
        self.endpoint = ""

    def __enter__(self) -> Conductor:
        self._thread.start()
        if not self._ready.wait(10.0):
            raise AssertionError("the conductor does not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10.0)

    @property
    def is_over(self) -> bool:
        """Everybody has said goodbye (or the conductor broke)."""
        return self._over.is_set() or self.fault is not None

    # --- the socket ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 1000)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            socket.bind("tcp://127.0.0.1:*")
            self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
            self._ready.set()
            beat_at = time.monotonic() + BEAT_S
            while not self._stop.is_set():
                if socket.poll(20):
                    connection, *frames = socket.recv_multipart()
                    self._receive(socket, connection, frames)
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + BEAT_S
                    for member in self._members.values():
                        self._beat(socket, member)
        except BaseException as error:
            self.fault = error
            raise
        finally:
            socket.close()
            context.term()

    def _receive(self, socket: zmq.Socket[bytes], connection: bytes, frames: list[bytes]) -> None:
        stream = self._streams.setdefault(connection, MessageStream(self._is_wanted, Side.COORDINATOR))
        known = self._names.get(connection)
        for message in stream.receive(list(frames)):
            if isinstance(message, Hello):
                self._names[connection] = known = message.name
                self._welcome(socket, connection, message)
            elif known is not None:
                self._note(socket, self._members[known], message)
        if known is None:
            stream.send(HelloRequired())
        self._flush(socket, connection)

    def _is_wanted(self, message: Message) -> bool:
        return isinstance(message, Stats | Update | Goodbye)

    def _flush(self, socket: zmq.Socket[bytes], connection: bytes) -> None:
        stream = self._streams[connection]
        while stream.outbound:
            outgoing = stream.outbound.popleft()
            try:
                socket.send_multipart([connection, *outgoing.frames])
            except zmq.ZMQError:
                stream.lost()

    def _send(self, socket: zmq.Socket[bytes], member: KnownMember, message: Message) -> None:
        if not member.connection:
            return
        self._streams[member.connection].send(message)
        self._flush(socket, member.connection)
        self._strike(member.name, f"said {message.KIND}" + _round(message))

    def _beat(self, socket: zmq.Socket[bytes], member: KnownMember) -> None:
        if not member.connection:
            return
        order = member.order
        latest = list(member.reports.values())[-1] if member.reports else None
        have = None if latest is None else Step(kind=latest.KIND, round_no=latest.round_no)
        want = None
        if order is not None and _answer(order) not in member.reports:
            want = Step(kind=_answer_kind(order), round_no=order.round_no)
        round_no = 0 if order is None else order.round_no
        self._streams[member.connection].send(Heartbeat(run=RUN, round_no=round_no, have=have, want=want))
        self._flush(socket, member.connection)

    # --- the run ------------------------------------------------------------------------------------------------

    def _welcome(self, socket: zmq.Socket[bytes], connection: bytes, hello: Hello) -> None:
        member = self._members[hello.name]
        member.hello, member.connection = hello, connection
        self.received.append((hello.name, hello))
        self._strike(hello.name, "heard hello")
        order = member.order
        welcome = Welcome(
            run=RUN,
            participant=hello.name,
            round_no=0 if order is None else order.round_no,
            heartbeat_s=BEAT_S,
            plan=self.plan,
            initial=None if hello.run == RUN else self._whole(self._initial),
        )
        self._send(socket, member, welcome)
        if all(one.hello is not None for one in self._members.values()) and all(
            one.order is None for one in self._members.values()
        ):
            self._begin(socket)

    def _begin(self, socket: zmq.Socket[bytes]) -> None:
        measure = self._strategy.first_measure
        if measure is Measure.NONE:
            self._order_round(socket, 0)
            return
        weights = None if self._anchor is None else self._whole(self._anchor)
        for member in self._members.values():
            self._order(socket, member, Anchor(run=RUN, round_no=0, measure=measure.value, weights=weights))

    def _order(self, socket: zmq.Socket[bytes], member: KnownMember, order: Order) -> None:
        member.order = order
        member.outbox.hold(Step(kind=order.KIND, round_no=order.round_no))
        self._send(socket, member, order)

    def _order_round(self, socket: zmq.Socket[bytes], round_no: int) -> None:
        plan = self._strategy.round_plan(round_no, self.plan.rounds)
        for member, row in zip(self._members.values(), self._rows, strict=True):
            weights = TensorSet.of_flat(self._layout, row.copy())
            order: Order = Finish(run=RUN, round_no=round_no, reason="rounds", weights=weights)
            if round_no < self.plan.rounds:
                order = Train(
                    run=RUN, round_no=round_no, phase=plan.phase.value, measure=plan.measure.value, weights=weights
                )
            self._order(socket, member, order)

    def _note(self, socket: zmq.Socket[bytes], member: KnownMember, message: Message) -> None:
        self.received.append((member.name, message))
        if isinstance(message, Heartbeat):
            if member.outbox.received(message) is not None and member.order is not None:
                self._send(socket, member, member.order)
            return
        if isinstance(message, Leave):
            member.connection = b""  # until it says hello again
        if not isinstance(message, Stats | Update | Goodbye):
            return
        key = f"{message.KIND} {message.round_no}"
        is_new = key not in member.reports
        member.reports[key] = message
        self._strike(member.name, f"heard {key}")
        if is_new and all(key in one.reports for one in self._members.values()):
            self._close(socket, message)

    def _close(self, socket: zmq.Socket[bytes], message: Report) -> None:
        """The last one has reported."""
        key = f"{message.KIND} {message.round_no}"
        reports = [member.reports[key] for member in self._members.values()]
        if isinstance(message, Stats):
            moments = [stats_of(report.moments) for report in reports if isinstance(report, Stats)]
            self._mixing = self._strategy.mixing(Evidence(counts=self._counts(), stats=tuple(moments))).weights
            self._order_round(socket, 0)
        elif isinstance(message, Update):
            updates = [report for report in reports if isinstance(report, Update)]
            self._rows = [update.weights.flat().copy() for update in updates]
            mix(self._weights(message.round_no, updates), self._rows, self._rows)
            self._order_round(socket, message.round_no + 1)
        else:
            for member in self._members.values():
                self._beat(socket, member)
            self._over.set()

    def _weights(self, round_no: int, updates: Sequence[Update]) -> FloatArray:
        stats = tuple(stats_of(update.statistics) for update in updates if update.statistics is not None)
        evidence = Evidence(counts=self._counts(), stats=stats)
        phase = self._strategy.round_plan(round_no, self.plan.rounds).phase
        if phase is not Phase.MIXED:
            return mixing_of_phase(self._strategy, phase, evidence).weights
        if self._mixing is None:
            self._mixing = self._strategy.mixing(evidence).weights
        return self._mixing

    def _counts(self) -> tuple[int, ...]:
        return tuple(member.hello.train_samples for member in self._members.values() if member.hello is not None)

    def _whole(self, state: State) -> TensorSet:
        arrays = {spec.name: state[spec.name].numpy() for spec in model_layout(self._spec).specs}
        return TensorSet.of(arrays)

    def _row(self, state: State) -> Float32Array:
        parts = [
            state[spec.name].numpy().reshape(-1) if spec.name in state else np.zeros(spec.shape, dtype=np.float32)
            for spec in self._layout.specs
        ]
        row: Float32Array = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
        return row


def stats_of(tensors: TensorSet) -> BnStats:
    """Statistics as they arrive, in their own order of layers."""
    arrays: Mapping[str, FloatArray] = tensors.arrays()
    names = [name.removesuffix("/count") for name in arrays if name.endswith("/count")]
    layers = tuple(
        LayerMoments(
            name=name,
            count=int(arrays[f"{name}/count"]),
            mean=arrays[f"{name}/mean"],
            variance=arrays[f"{name}/variance"],
            covariance=arrays.get(f"{name}/covariance"),
        )
        for name in names
    )
    return BnStats(samples=1, layers=layers)


def _round(message: Message) -> str:
    return f" {message.round_no}" if isinstance(message, Anchor | Train | Finish) else ""


def _answer_kind(order: Order) -> str:
    return {"anchor": "stats", "train": "update", "finish": "goodbye"}[order.KIND]


def _answer(order: Order) -> str:
    return f"{_answer_kind(order)} {order.round_no}"
