"""Lists what can happen next: the steps of a network without faults, in all orders that matter, and single faults.

A participant's own steps (connect, receive, work) do not affect the others, so their order among participants makes no
difference, nor does it matter when they happen between the coordinator's steps: they are taken first, one participant
after the other. The same holds for receipts and pieces of a payload that complete nothing: they concern one connection,
and are received first unless a hello is waiting that may bring that connection an order, because it completes the
members or brings back one that was thought dead. Otherwise every order in which the coordinator can receive messages is
taken, one by one and in whole batches. Time passes when nothing else can happen, or as a fault.

Faults are possible in every state, but one that commutes with the step taken first is left to the state after it, where
it is still possible and leads to the same result: a fault of the other parties while a participant takes its own step,
or at the front of a queue to whose end the step may append. A killed coordinator and passing time commute with nothing.

`touches` names what a move reads or changes. Two moves that touch nothing in common commute, and the search takes one
order only (`search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from coordinator.decisions.state import Status
from protocol.codec import decode
from protocol.messages import Grant, Slice
from scripts.explore.world import World

Act = Callable[[World], None]
Parts = frozenset[str]
"""What a move reads or changes. Of a member a: «a» (its process), «a line» (whether it can be reached, and how),
«a awake», and the front and the end of its two queues. The coordinator is «C»; messages that are held up are «late»."""


@dataclass(frozen=True)
class Move:
    """One step. text: for readers, unique in its state; is_fault: whether it counts as one of the path's faults;
    touches: None means everything."""

    text: str
    act: Act
    is_fault: bool = False
    touches: Parts | None = None

    def make(self, world: World) -> None:
        """Apply it to the world."""
        if self.is_fault:
            world.faults_left -= 1
        self.act(world)

    def commutes(self, other: Move, faults_left: int) -> bool:
        """Whether both orders are possible and lead to the same state, unless the coordinator ends in between."""
        if self.touches is None or other.touches is None or (self.is_fault and other.is_fault and faults_left < 2):
            return False
        return self.touches.isdisjoint(other.touches)


def moves(world: World) -> list[Move]:
    """Return everything that can happen in this state; empty at the end."""
    first = _Taken(own=_mover(world))
    found = list(_own(world, first.own)) if first.own is not None else []
    if not found:
        first = _Taken(piece=_piece(world), settled=not _awaits_members(world))
        found = list(_deliver_one(world, first.piece)) if first.piece is not None else list(_central(world))
    if not found:
        due = world.deadline()
        if due is None:
            return []
        found = [_time(due, "time passes")]
    if world.faults_left > 0:
        found += _faults(world, first)
    return found


@dataclass(frozen=True)
class _Taken:
    """Which step is taken first: a participant's own, or the coordinator receives a piece of one; otherwise any.

    settled: no hello can bring an order to anybody else.
    """

    own: str | None = None
    piece: str | None = None
    settled: bool = False

    def leaves_message(self, name: str, *, up: bool) -> bool:
        """Whether faults of the message at the front of this queue can equally happen after the step."""
        if self.own is not None:
            return up or name != self.own
        return self.piece is not None and (not up or name != self.piece)

    def leaves_end(self, name: str) -> bool:
        """The same for faults at the end of one of this participant's queues."""
        return (self.own or self.piece) is not None and name not in (self.own, self.piece)

    def leaves_participant(self, name: str) -> bool:
        """The same for faults of a participant. They may cause a hello, which brings the connection of a piece an order
        unless all are members already."""
        return name != self.own if self.own is not None else self.settled and self.piece not in (None, name)


def _time(until: float, text: str, *, is_fault: bool = False) -> Move:
    return Move(text, lambda world: world.pass_time(until), is_fault)


def _mover(world: World) -> str | None:
    """Return the first participant that can take a step of its own."""
    for name, home in world.homes.items():
        able = home.is_opening or world.down[name] or home.job is not None or name in world.broken
        if able and name not in world.asleep:
            return name
    return None


def _own(world: World, name: str) -> Iterator[Move]:
    home, waiting, touches = world.homes[name], len(world.down[name]), _touched_by(name)
    if home.is_opening:
        yield Move(f"{name} connects", partial(World.connect, name=name), touches=touches)
    if waiting:
        text = f"{name} hears {_kind(world.down[name][0])}"
        yield Move(text, partial(World.receive, name=name, count=1), touches=touches)
    if waiting > 1:
        kinds = ", ".join(_kind(frames) for frames in world.down[name])
        yield Move(f"{name} hears at once {kinds}", partial(World.receive, name=name, count=waiting), touches=touches)
    if home.job is not None:
        yield Move(f"{name} ends its work", partial(World.work, name=name), touches=touches)
    if name in world.broken and not waiting:
        yield Move(f"{name} notices that its connection is gone", partial(World.hung_up, name=name), touches=touches)


@cache
def _touched_by(name: str) -> Parts:
    """By a participant's own step: all of its own, and whether the coordinator is there; of what it has said, the
    end."""
    down = {f"{name} down, front", f"{name} down, end"}
    return frozenset({"C", name, f"{name} line", f"{name} awake", f"{name} up, end", *down})


@cache
def _touched_centrally(names: tuple[str, ...], heard: tuple[str, ...], *, all_of_it: bool = False) -> Parts:
    """By a step of the coordinator: it may say something to anybody who can be reached. heard: whose messages it takes;
    all_of_it: everything that waits, however much."""
    said = {part for name in names for part in (f"{name} line", f"{name} down, end")}
    ends = {f"{name} up, end" for name in names if all_of_it}
    return frozenset({"C", *said, *ends, *(f"{name} up, front" for name in heard)})


def _piece(world: World) -> str | None:
    """Return the first participant whose next message is a receipt or a piece of a payload that completes nothing."""
    if world.centre.is_down or (_awaits_members(world) and _says_hello(world)):
        return None
    size_bytes = world.setup.layout.size_bytes("f32")
    return next((name for name, queue in world.up.items() if queue and _is_piece(queue[0][1], size_bytes)), None)


def _awaits_members(world: World) -> bool:
    """Whether a hello may bring others an order: enrolment is open, or the run no longer waits for some member."""
    state = world.centre.machine.state
    return not state.enrolled or any(one.status is not Status.PRESENT for one in state.members.values())


def _says_hello(world: World) -> bool:
    return any(_kind(one) == "hello" for queue in world.up.values() for _, one in queue)


def _deliver_one(world: World, name: str) -> Iterator[Move]:
    touches = _touched_centrally(world.setup.names, (name,))
    text = f"C hears {_kind(world.up[name][0][1])} of {name}"
    yield Move(text, partial(World.deliver, names=(name,)), touches=touches)


@lru_cache(maxsize=50_000)
def _is_piece(frames: tuple[bytes, ...], size_bytes: int) -> bool:
    message = decode(frames)
    if isinstance(message, Slice):
        return message.offset + message.data.nbytes < size_bytes
    return isinstance(message, Grant)


def _central(world: World) -> Iterator[Move]:
    """Yield the coordinator's steps: one message of one member, all waiting messages, or finished work."""
    if world.centre.is_down:
        return
    speaking = [name for name, queue in world.up.items() if queue]
    for name in speaking:
        yield from _deliver_one(world, name)
    total = sum(len(world.up[name]) for name in speaking)
    if total > 1:
        for order in (speaking, speaking[::-1])[: len(speaking)]:
            batch = tuple(name for at in range(total) for name in order if at < len(world.up[name]))
            touches = _touched_centrally(world.setup.names, world.setup.names, all_of_it=True)
            text = f"C hears at once {total} messages, {order[0]} first"
            yield Move(text, partial(World.deliver, names=batch), touches=touches)
    if world.centre.is_computing:
        yield Move("C ends a computation", World.compute, touches=_touched_centrally(world.setup.names, ()))


def _faults(world: World, taken: _Taken) -> Iterator[Move]:
    for name in world.homes:
        for up in (True, False):
            yield from _to_queue(world, name, up, taken)
        if not taken.leaves_participant(name):
            yield from _to_participant(world, name)
    if not world.centre.is_down:
        yield _fault("C is killed and started again", None, World.crash, sent=False)
        if any(world.down.values()):
            yield _fault("C is killed and started again; what it said arrives", None, World.crash, sent=True)
    due = world.deadline()
    if due is not None and (any(world.up.values()) or any(world.down.values()) or _works(world)):
        yield _time(due, "everything takes so long that time passes", is_fault=True)


def _works(world: World) -> bool:
    return world.centre.is_computing or any(home.job is not None for home in world.homes.values())


def _to_queue(world: World, name: str, up: bool, taken: _Taken) -> Iterator[Move]:
    waiting = len(world.up[name] if up else world.down[name])
    if not waiting:
        return
    first = world.up[name][0][1] if up else world.down[name][0]
    what = f"{_kind(first)} {'of' if up else 'to'} {name}"
    if not taken.leaves_message(name, up=up):
        yield from _to_message(name, what, up, waiting)
    if waiting > 1 and not taken.leaves_end(name):
        yield _fault(f"{what} comes again later", _queue(name, up), World.repeat, name=name, up=up, at_end=True)


def _to_message(name: str, what: str, up: bool, waiting: int) -> Iterator[Move]:
    """A message to a participant may be overtaken by the end of its connection, by which it is gone."""
    front = frozenset({f"{name} up, front"} if up else {f"{name} down, front"})
    held_up = front | {"late"} if up else front | {"late", f"{name} line"}
    yield _fault(f"{what} is lost", front, World.lose, name=name, up=up)
    yield _fault(f"{what} comes twice", front, World.repeat, name=name, up=up, at_end=False)
    yield _fault(f"{what} comes late", held_up, World.hold_up, name=name, up=up)
    if waiting > 1:
        yield _fault(f"{what} is overtaken", front, World.overtake, name=name, up=up)


def _queue(name: str, up: bool) -> Parts:
    way = "up" if up else "down"
    return frozenset({f"{name} {way}, front", f"{name} {way}, end"})


def _to_participant(world: World, name: str) -> Iterator[Move]:
    home = world.homes[name]
    if name in world.asleep:
        return
    line = _queue(name, True) | _queue(name, False) | {f"{name} line", f"{name} awake"}
    everything = line | {name}
    if home.connection is not None and name not in world.broken:
        yield _fault(f"the connection of {name} is cut", line, World.cut, name=name)
        yield _fault(f"the connection of {name} goes dead", line, World.darken, name=name)
    text = f"{name} is killed and started again"
    yield _fault(text, everything, World.kill, name=name, sent=False, saved=False)
    if world.up[name]:
        yield _fault(f"{text}; what it said arrives", everything, World.kill, name=name, sent=True, saved=False)
    if world.is_saved_by_end(name):
        yield _fault(f"{text} just after its work was saved", everything, World.kill, name=name, sent=True, saved=True)
    if home.end is None:
        yield _fault(f"{name} stands still for long", frozenset({name, f"{name} awake"}), World.sleep, name=name)


def _fault(text: str, touches: Parts | None, act: Callable[..., None], **given: object) -> Move:
    return Move(text, partial(act, **given), is_fault=True, touches=touches)


@lru_cache(maxsize=50_000)
def _kind(frames: tuple[bytes, ...]) -> str:
    """Return the kind of a message and its round, for readers."""
    message = decode(frames)
    round_no = getattr(message, "round_no", None)
    offset = getattr(message, "offset", None)
    more = "" if round_no is None or message.KIND in ("welcome", "heartbeat") else f" {round_no}"
    return message.KIND + more + ("" if offset is None else f" at {offset}")
