"""A coordinator for hostile scenarios: a ROUTER socket that sends whatever a scenario says, and one real participant.

This side keeps no conversation state, so nothing stops it from sending illegal messages. It does not know the scenarios
or how they are judged.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import zmq

from fedap_core.strategies import make_strategy
from participant.config import DataSettings, JoinSettings
from participant.decisions.actions import End
from participant.decisions.layouts import floating_layout, model_layout, shared_layout
from participant.joining import LocalSetup, join, open_home
from participant.record.model_file import make_initial, read_model, write_model
from protocol.codec import decode, encode, offers
from protocol.contracts import Buffer
from protocol.messages import (
    Anchor,
    Compute,
    Finish,
    Goodbye,
    Grant,
    Heartbeat,
    Hello,
    Message,
    Plan,
    Sgd,
    Slice,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import TensorSet
from protocol.traffic import Dispatch, Intake

RUN = "agreed"
NAME = "hospital"
BEAT_S = 30.0
"""Long, because this side never sends heartbeats; four missed ones would count as silence."""

ROUNDS = 3
PATIENCE_S = 60.0
"""How long a scenario waits for an expected message; a machine under load may take seconds."""

FORBIDDEN_MODULE = "hostile_payload"
"""A module that is importable while scenarios are played, and that nothing may import."""


@dataclass(frozen=True, kw_only=True)
class ScenarioData:
    """A participant's data and model, from which every scenario starts; made once."""

    home: LocalSetup
    initial: Path
    model: str
    data_options: Mapping[str, str]

    @classmethod
    def made(cls, folder: Path, model: str = "lenet5") -> ScenarioData:
        """Make synthetic images of three classes and a model, LeNet-5 by default; a round takes well under a second."""
        options = {"samples": "96", "classes": "3", "shape": "1x16x16"}
        described = {"data": "synthetic", "data_options": options, "model": model, "name": NAME}
        home = open_home(DataSettings.model_validate(described))
        initial = folder / "initial.safetensors"
        dataset = home.data.dataset
        spec, state = make_initial(
            model, input_shape=dataset.input_shape, classes=dataset.classes,
            preprocessing=dataset.preprocessing, seed=0,
        )  # fmt: skip
        write_model(initial, spec, state)
        return cls(home=home, initial=initial, model=model, data_options=options)

    def settings(self, endpoint: str, state: Path, **others: object) -> JoinSettings:
        """Return the settings of the hospital's operator: FedAP and nothing else."""
        described: dict[str, object] = {
            "coordinator": endpoint,
            "data": "synthetic",
            "data_options": dict(self.data_options),
            "model_file": self.initial,
            "name": NAME,
            "state": state,
            "algorithm": "fedap",
            "validation": 0.0,  # as in the plan: another share would need a second hello
            "reconnect_s": 0.1,
            "reconnect_cap_s": 0.2,
            "answer_s": 2.0,
            "farewell_s": 5.0,
            "give_up_s": PATIENCE_S,
        }
        return JoinSettings.model_validate({**described, **others})

    def plan(self, **others: object) -> Plan:
        """Return the honest plan: three rounds of FedAP, measured under the initial model."""
        spec, strategy = self.home.spec, make_strategy("fedap")
        fields: dict[str, object] = {
            "strategy": "fedap",
            "options": {},
            "mode": "barrier",
            "rounds": ROUNDS,
            "seed": 0,
            "split": "paper",
            "encoding": "f32",
            "model_layout": model_layout(spec).digest,
            "shared_layout": shared_layout(spec, strategy).digest,
            "sgd": Sgd(learning_rate=0.05, batch_size=16),
            "compute": Compute(),
        }
        return Plan(**{**fields, **others})  # type: ignore[arg-type]

    def whole(self, change: Callable[[Any], Any] = lambda values: values) -> TensorSet:
        """Return the initial model with all tensors, its floating-point values changed."""
        _, state, _ = read_model(self.initial)
        arrays = {spec.name: state[spec.name].numpy() for spec in model_layout(self.home.spec).specs}
        changed = {name: change(a).astype(a.dtype) if a.dtype == np.float32 else a for name, a in arrays.items()}
        return TensorSet.of(changed)

    def weights(self, fill: float | None = None, *, everything: bool = False) -> TensorSet:
        """Return what FedAP shares (or all floating-point tensors), from the initial model or filled with one value."""
        spec = self.home.spec
        layout = floating_layout(spec) if everything else shared_layout(spec, make_strategy("fedap"))
        arrays = self.whole().arrays()
        chosen = {one.name: np.array(arrays[one.name]) for one in layout.specs}
        return TensorSet.of({n: a if fill is None else np.full_like(a, fill) for n, a in chosen.items()})


class FalseCoordinator:
    """One scenario's socket and the participant on it, across restarts. Use as a context manager."""

    def __init__(self, data: ScenarioData, folder: Path) -> None:
        self.data = data
        self.folder = folder
        self.received: list[Message] = []
        self.ends: list[End | BaseException] = []
        self._frames: queue.SimpleQueue[End | BaseException] = queue.SimpleQueue()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 500
        self._socket.sndhwm = 0
        self._connection = b""
        self._thread: threading.Thread | None = None
        self._run = RUN
        self._payloads: dict[str, Buffer] = {}
        self._dispatch, self._intake = Dispatch(), Intake()

    def __enter__(self) -> FalseCoordinator:
        self._socket.bind("tcp://127.0.0.1:*")
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self._context.term()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    @property
    def state(self) -> Path:
        return self.folder / "state-of-hospital"

    @property
    def is_over(self) -> bool:
        """Whether the current participant has ended."""
        while not self._frames.empty():
            self.ends.append(self._frames.get())
        return self._thread is not None and not self._thread.is_alive() and self._frames.empty()

    def start(self, **others: object) -> None:
        """Start the participant in a thread of this process."""
        settings = self.data.settings(self.endpoint, self.state, **others)

        def live() -> None:
            try:
                self._frames.put(join(settings, home=self.data.home))
            except BaseException as error:  # noqa: BLE001 - any end is judged
                self._frames.put(error)

        self._thread = threading.Thread(target=live, name="hospital", daemon=True)
        self._thread.start()

    # --- sending and receiving ----------------------------------------------------------------------------------

    def send(self, *messages: Message, instead: Buffer | None = None) -> None:
        """Send messages; payloads larger than a slice are sent as granted. instead: other bytes under their name."""
        for message in messages:
            for one in _sets_of(message):
                if one.data is not None and one.transfer is not None:
                    self._payloads[one.transfer] = one.data if instead is None else instead
                    self._dispatch.drop(NAME, one.transfer)
                    self._dispatch.offer(NAME, one.transfer, one.size_bytes)
            self.announce(message)

    def announce(self, message: Message) -> None:
        """Send a message; a payload larger than a slice is offered but never sent."""
        self.send_frames([bytes(frame) for frame in encode(message)])

    def send_frames(self, frames: Sequence[bytes]) -> None:
        self._socket.send_multipart([self._connection, *frames])

    def receive(self, *kinds: str, until: Callable[[Message], bool] = lambda _message: True) -> Message | None:
        """Return the next message of one of these kinds; None if the participant ends first."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            message = self._next()
            if message is not None and message.KIND in kinds and until(message):
                return message
            if message is None and self.is_over and not self._socket.poll(100):
                return None
        raise TimeoutError(f"waited {PATIENCE_S:g} s in vain for {' or '.join(kinds)}")

    def attempt(self, order: Message) -> None:
        """Send an order outside the plan, and wait until the participant refuses it or carries it out."""
        self.send(order)
        self.receive("error", "stats", "update")

    def receive_the_end(self) -> None:
        """Receive everything until the participant has ended."""
        self.receive("nothing")

    def _next(self) -> Message | None:
        if not self._socket.poll(20):
            return None
        connection, *frames = self._socket.recv_multipart()
        self._connection = connection
        message = decode(frames)
        self.received.append(message)
        self._transfer(message)
        return message

    def _transfer(self, message: Message) -> None:
        """Send granted slices, and grant everything that is offered."""
        if isinstance(message, Hello):
            self._dispatch.drop(NAME)
            self._intake.drop(NAME)
        if isinstance(message, Grant):
            spans = [one.what for one in self._dispatch.granted(NAME, message)]
            self.send(*(span.filled(self._payloads[span.transfer][span.start : span.stop]) for span in spans))
        elif isinstance(message, Slice):
            self.send(*(one.what for one in self._intake.arrived(NAME, message).grants))
        for one in offers(message):
            self.send(*(to.what for to in self._intake.offered(NAME, str(one.transfer), one.size_bytes)))

    # --- what an honest coordinator would do --------------------------------------------------------------------

    def welcome(self, plan: Plan | None = None, **others: object) -> Welcome:
        """Wait for a hello and answer it; returns after an initial model in slices has arrived."""
        hello = self.receive("hello")
        known = isinstance(hello, Hello) and hello.run == RUN
        fields: dict[str, object] = {
            "run": RUN,
            "participant": NAME,
            "round_no": 0,
            "heartbeat_s": BEAT_S,
            "initial": None if known else self.data.whole(),
        }
        made = Welcome(plan=plan or self.data.plan(), **{**fields, **others})  # type: ignore[arg-type]
        self.send(made)
        initial = made.initial
        if initial is not None and initial.data is not None and initial.transfer is not None:
            self.receive("grant", until=lambda one: getattr(one, "received", 0) == initial.size_bytes)
        return made

    def anchor(self, round_no: int = 0, *, measure: str = "bn-inputs", weights: TensorSet | None = None) -> Anchor:
        return Anchor(run=RUN, round_no=round_no, measure=measure, weights=weights)

    def train(
        self, round_no: int, *, phase: str = "mixed", measure: str = "none", weights: TensorSet | None = None
    ) -> Train:
        chosen = self.data.weights() if weights is None else weights
        return Train(run=RUN, round_no=round_no, phase=phase, measure=measure, weights=chosen)

    def finish(self, round_no: int, weights: TensorSet | None, reason: str = "requested") -> Finish:
        return Finish(run=RUN, round_no=round_no, reason=reason, weights=weights)

    def measure(self) -> None:
        """Request the one measurement of the plan."""
        self.send(self.anchor())
        self.receive("stats")

    def round(self, round_no: int, weights: TensorSet | None = None) -> Update | None:
        """Run a round as planned and return its update."""
        self.send(self.train(round_no, weights=weights))
        received = self.receive("update", until=lambda message: getattr(message, "round_no", -1) == round_no)
        return received if isinstance(received, Update) else None

    def end_honestly(self, round_no: int, weights: TensorSet | None = None) -> None:
        """End the run in that round, with the initial model's weights unless others are given."""
        self.send(self.finish(round_no, self.data.weights() if weights is None else weights))
        self.part(round_no)

    def part(self, round_no: int) -> None:
        """Confirm the participant's goodbye."""
        if isinstance(self.receive("goodbye"), Goodbye):
            self.send(Heartbeat(run=RUN, round_no=round_no, have=Step(kind="goodbye", round_no=round_no), want=None))
        self.receive_the_end()

    def go_on_honestly(self, first: int = 0) -> None:
        """Run a round as planned, then the end: a participant that does this was not misled by earlier messages."""
        self.round(first)
        self.end_honestly(first + 1)


def _sets_of(message: Message) -> list[TensorSet]:
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    return [value for value in values if isinstance(value, TensorSet)]
