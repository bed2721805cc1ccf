"""Defines what is fuzzed: the codec, transfers, one conversation, and each side's machine behind its exchange or post.

A target is put into a starting state, then takes operations, each of them plain data that can be stored in a file. The
errors that an operation may raise are defined here; any other is a finding. Machines start from states of an honest
federation, so that hostile messages reach every stage of a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from participant.decisions.actions import Order
from participant.decisions.events import Event, Failed, Report, Reported
from protocol.codec import decode, encode
from protocol.conversation import Conversation
from protocol.errors import CODES, LocalProtocolError, ProtocolError, RemoteProtocolError
from protocol.messages import Grant, Message, Side, Slice
from protocol.naming import content_name
from protocol.tensors import TensorSet
from protocol.traffic import Dispatch, Intake
from scripts.fuzz.corpus import everything, frames_of
from scripts.fuzz.mutation import Frames, Mutator
from scripts.inmemory.federation import MemoryFederation
from scripts.inmemory.home import MemoryHome
from scripts.inmemory.setup import Setup

Operation = tuple[object, ...]
"""A name, then numbers, text, bytes and tuples of bytes."""


class FuzzTarget(Protocol):
    """One thing to fuzz. EPISODE: operations until it starts over."""

    EPISODE: int

    def begin(self, start: int) -> None:
        """Go to a starting state."""

    def draw(self) -> Operation:
        """Draw the next operation."""

    def apply(self, operation: Operation) -> None:
        """Perform it; raises only if something is wrong."""


class Codec:
    """Decoding gives a message or a peer's fault; a message survives encoding and decoding again."""

    EPISODE = 1000

    def __init__(self, rng: random.Random) -> None:
        self._mutator = Mutator([frames_of(message) for message in everything()], rng)

    def begin(self, start: int) -> None:
        """Do nothing: there is no state."""

    def draw(self) -> Operation:
        return "decode", self._mutator.mutated()

    def apply(self, operation: Operation) -> None:
        understood(_frames(operation[1]))


def understood(frames: Frames) -> None:
    """Decode; a message must survive encoding and decoding again, and its tensors must be readable."""
    message = judged(frames)
    if message is None:
        return
    if decode(encode(message)) != message:
        raise AssertionError(f"{message.KIND} came back as another message")
    for name, _ in message.CONTRACTS:
        value = getattr(message, name)
        if isinstance(value, TensorSet) and value.data is not None:
            _read(value)


def judged(frames: Frames) -> Message | None:
    """Return the message, or None if the peer is at fault; the fault must fit one printable line."""
    try:
        return decode(frames)
    except RemoteProtocolError as fault:
        if fault.code not in CODES or not str(fault).isprintable() or len(str(fault)) >= 1000:
            raise AssertionError(f"a fault that cannot be printed: {fault.code}") from fault
        return None


def _read(tensors: TensorSet) -> None:
    try:
        tensors.arrays()
        if tensors.layout.is_float32:
            tensors.flat()
    except ProtocolError:
        return  # an infinity under f16


class ConversationTarget:
    """Conversations of both sides, with messages in any order."""

    EPISODE = 200

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        mutator = Mutator([frames_of(message) for message in everything()], rng)
        found = [*everything(), *(judged(mutator.mutated()) for _ in range(3000))]
        self._known = {frames_of(message): message for message in found if message is not None}
        self._frames = list(self._known)
        self._sides = {role: Conversation(role) for role in Side}

    def begin(self, start: int) -> None:
        del start
        self._sides = {role: Conversation(role) for role in Side}

    def draw(self) -> Operation:
        rng = self._rng
        frames = self._frames[int(rng.random() * len(self._frames))]
        return "send" if rng.random() < 0.5 else "receive", _ROLES[rng.random() < 0.5], frames

    def apply(self, operation: Operation) -> None:
        way, role, frames = operation
        side, message = self._sides[Side(str(role))], self._known.get(_frames(frames)) or decode(_frames(frames))
        before = side.state
        allowed, do = (LocalProtocolError, side.send) if way == "send" else (RemoteProtocolError, side.receive)
        try:
            do(message)
        except ProtocolError as error:
            if not isinstance(error, allowed) or side.state is not before:
                raise AssertionError(f"a refused message moved the conversation, or {error!r}") from error


_ROLES = ("participant", "coordinator")
PAYLOADS = {content_name(data): data for data in (bytes([one]) * (64 * one + 7) for one in range(1, 9))}


class Transfers:
    """Transfers in both directions with three peers that send anything."""

    EPISODE = 300
    CAPACITY = 512

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.begin(0)

    def begin(self, start: int) -> None:
        del start
        self._intake = Intake(capacity_bytes=self.CAPACITY, slice_bytes=64)
        self._dispatch = Dispatch(capacity_bytes=self.CAPACITY, slice_bytes=64)

    def draw(self) -> Operation:
        rng = self._rng
        peer, name = rng.choice("abc"), rng.choice(list(PAYLOADS))
        size = len(PAYLOADS[name]) if rng.random() < 0.9 else rng.choice((1, 63, 64, 65, 2**32))
        way = rng.choice(("offered", "arrived", "arrived", "arrived", "drop", "offer", "granted", "end"))
        if way == "arrived":
            at = rng.choice((0, 64, 128, 192, 256, 1, 2**32)) if rng.random() < 0.5 else self._next(peer, name)
            data = PAYLOADS[name][at : at + 64] or b"x"
            return way, peer, name, at, data if rng.random() < 0.9 else rng.randbytes(rng.randrange(1, 65))
        if way == "granted":
            low, high = sorted(rng.choice((0, 64, 128, 256, 1, size, 2**32)) for _ in range(2))
            return way, peer, name, low, high, rng.random() < 0.3
        return way, peer, name, size

    def _next(self, peer: str, name: str) -> int:
        return self._intake.received_bytes(peer, name) or 0

    def apply(self, operation: Operation) -> None:
        try:
            self._do(operation)
        except RemoteProtocolError:
            return
        finally:
            if self._intake.credit_bytes > self.CAPACITY or self._dispatch.in_flight_bytes > self.CAPACITY:
                raise AssertionError("more is on its way than the capacity allows")

    def _do(self, operation: Operation) -> None:
        way, peer, name, *rest = operation
        peer, name = str(peer), str(name)
        match way, rest:
            case "offered", [int(size)]:
                self._intake.offered(peer, name, size)
            case "arrived", [int(at), bytes(data)]:
                self._intake.arrived(peer, Slice(transfer=name, offset=at, data=memoryview(data)))
            case "drop", _:
                self._intake.drop(peer, name)
            case "offer", [int(size)]:
                self._dispatch.offer(peer, name, size)
            case "granted", [int(low), int(high), bool(again)]:
                self._dispatch.granted(peer, Grant(transfer=name, received=low, until=high, again=again))
            case _:
                self._dispatch.drop(peer, name)


SETUPS = (
    Setup(),
    Setup(sliced=True),
    Setup(algorithm="fedap"),
    Setup(continuous=True, sliced=True),
    Setup(algorithm="f-fedap", sliced=True),
)


class TolerantHome(MemoryHome):
    """A participant that may receive anything: wrong tensors end its work, as in the real worker."""

    def judge(self, frames: Frames) -> list[Event]:
        try:
            return super().judge(frames)
        except AssertionError as fault:
            if type(fault).__name__ == "Accused":
                return []
            raise

    def _work(self, order: Order) -> None:
        self.job = None  # a new run made its order obsolete: the real worker's answer arrives and is dropped
        super()._work(order)

    def _report(self, order: Order) -> Report:
        try:
            return super()._report(order)
        except ProtocolError as fault:
            raise _Unworkable(str(fault)) from None

    def finish_work(self) -> None:
        if isinstance(self.job, Reported) and self.job.report.run != "run-1":
            self.job = Failed(reason="another run")
        super().finish_work()


class _Unworkable(Exception):
    """The order cannot be worked on."""


def states(
    rng: random.Random, make_home: Callable[..., MemoryHome]
) -> tuple[list[MemoryFederation], list[Frames], list[Frames]]:
    """Return honest federations at every stage, and the messages sent so far: up, down."""
    del rng
    found: list[MemoryFederation] = []
    up: dict[Frames, None] = {}
    down: dict[Frames, None] = {}
    for setup in SETUPS:
        federation = MemoryFederation(setup, make_home)
        for _ in range(60):
            found.append(federation.copy())
            for queue in federation.up.values():
                up.update({frames: None for _, frames in queue})
            for others in federation.down.values():
                down.update(dict.fromkeys(others))
            if not federation.step():
                break
    return found, list(up), list(down)


class Coordinators:
    """The coordinator's exchange and machine, with honest members, strangers, and members that turn hostile."""

    EPISODE = 80

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._states, up, down = states(rng, MemoryHome)
        said = [frames_of(message) for message in everything()]
        self._mutator = Mutator([*up, *up, *said, *down[:10]], rng)
        self.begin(0)

    def begin(self, start: int) -> None:
        self._federation: MemoryFederation = self._states[start % len(self._states)].copy()

    def draw(self) -> Operation:
        rng = self._rng
        way = rng.random()
        if way < 0.90:
            who = rng.choice(("a#1", "a#1", "b#1", "x#1", "y#1"))
            return "hear", who, self._mutator.mutated()
        if way < 0.93:
            return "time", rng.choice((0.2, 1.0, 6.0))
        return ("compute",) if way < 0.96 else ("step",)

    def apply(self, operation: Operation) -> None:
        federation = self._federation
        match operation:
            case "hear", str(who), frames:
                federation.send([(who, _frames(frames))])
            case "time", float(seconds):
                federation.pass_time(federation.now + seconds)
            case "compute", *_:
                if federation.centre.is_computing:
                    federation.compute()
            case _:
                federation.step()
        federation.centre.machine.check_invariants()


class Participants:
    """A participant's post and machine, with a coordinator that sends anything."""

    EPISODE = 80

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._states, up, down = states(rng, TolerantHome)
        said = [frames_of(message) for message in everything()]
        self._mutator = Mutator([*down, *down, *said, *up[:10]], rng)
        self.begin(0)

    def begin(self, start: int) -> None:
        self._federation: MemoryFederation = self._states[start % len(self._states)].copy()

    def draw(self) -> Operation:
        way = self._rng.random()
        if way < 0.90:
            return "hear", self._mutator.mutated()
        if way < 0.94:
            return "time", self._rng.choice((0.2, 1.0, 6.0))
        return ("work",) if way < 0.98 else ("step",)

    def apply(self, operation: Operation) -> None:
        federation = self._federation
        home = federation.moving("a")
        try:
            match operation:
                case "hear", frames:
                    if home.connection is not None:
                        home.receive([_frames(frames)])
                        federation.delivered("a")
                case "time", float(seconds):
                    federation.pass_time(federation.now + seconds)
                case "work", *_:
                    federation.work("a")
                case _:
                    federation.step()
        except _Unworkable as fault:
            federation.moving("a").job = Failed(reason=str(fault))
        federation.homes["a"].machine.check_invariants()


def _frames(value: object) -> Frames:
    if not isinstance(value, tuple):
        raise TypeError("frames are a tuple of bytes")
    return value


TARGETS: Mapping[str, Callable[[random.Random], FuzzTarget]] = {
    "codec": Codec,
    "frames": Codec,
    "conversation": ConversationTarget,
    "transfer": Transfers,
    "coordinator": Coordinators,
    "participant": Participants,
}
