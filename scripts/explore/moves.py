"""What can happen next: the steps of a network that behaves, in all orders that matter, and one fault more.

A participant's own steps (connect, receive, work) touch nothing of the others, so their order among participants makes
no difference, and neither does it matter when they happen between the coordinator's: they are taken first, one
participant after the other. The same holds for receipts and pieces of a payload that complete nothing: they concern one
connection, and are heard first unless somebody's hello waits, which may bring that connection an order. Otherwise every
order in which the coordinator can hear its members is taken, single messages and whole batches. Time passes when
nothing else can happen, or as a fault. Faults are possible in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from protocol.codec import decode
from protocol.messages import Grant, Slice
from scripts.explore.world import World

Act = Callable[[World], None]


@dataclass(frozen=True)
class Move:
    """One step. text: for a person; is_fault: whether it counts against the faults of a path."""

    text: str
    act: Act
    is_fault: bool = False

    def make(self, world: World) -> None:
        """Let it happen."""
        if self.is_fault:
            world.faults_left -= 1
        self.act(world)


def moves(world: World) -> list[Move]:
    """Everything that can happen in this state; empty when all has come to its end."""
    found = list(_own(world)) or list(_pieces(world)) or list(_central(world))
    if not found:
        due = world.deadline()
        if due is None:
            return []
        found = [_time(due, "time passes")]
    if world.faults_left > 0:
        found += _faults(world)
    return found


def _time(until: float, text: str, *, is_fault: bool = False) -> Move:
    return Move(text, lambda world: world.pass_time(until), is_fault)


def _own(world: World) -> Iterator[Move]:
    """The steps of the first participant that can take one."""
    for name, home in world.homes.items():
        if name in world.asleep:
            continue
        waiting = len(world.down[name])
        if home.is_opening:
            yield Move(f"{name} connects", partial(World.connect, name=name))
        if waiting:
            yield Move(f"{name} hears {_kind(world.down[name][0])}", partial(World.receive, name=name, count=1))
        if waiting > 1:
            kinds = ", ".join(_kind(frames) for frames in world.down[name])
            yield Move(f"{name} hears at once {kinds}", partial(World.receive, name=name, count=waiting))
        if home.job is not None:
            yield Move(f"{name} ends its work", partial(World.work, name=name))
        if name in world.broken and not waiting:
            yield Move(f"{name} notices that its connection is gone", partial(World.hung_up, name=name))
        if home.is_opening or waiting or home.job is not None or name in world.broken:
            return


def _pieces(world: World) -> Iterator[Move]:
    """The coordinator hears the first receipt or piece of a payload that completes nothing."""
    if world.centre.is_down or any(_kind(one) == "hello" for queue in world.up.values() for _, one in queue):
        return
    for name, queue in world.up.items():
        if queue and _is_piece(queue[0][1], world.setup.layout.size_bytes("f32")):
            yield Move(f"C hears {_kind(queue[0][1])} of {name}", partial(World.hear, names=(name,)))
            return


@lru_cache(maxsize=50_000)
def _is_piece(frames: tuple[bytes, ...], size_bytes: int) -> bool:
    message = decode(frames)
    if isinstance(message, Slice):
        return message.offset + message.data.nbytes < size_bytes
    return isinstance(message, Grant)


def _central(world: World) -> Iterator[Move]:
    """The coordinator's steps: one message of one member, all that is there, or finished work."""
    if world.centre.is_down:
        return
    speaking = [name for name, queue in world.up.items() if queue]
    for name in speaking:
        yield Move(f"C hears {_kind(world.up[name][0][1])} of {name}", partial(World.hear, names=(name,)))
    total = sum(len(world.up[name]) for name in speaking)
    if total > 1:
        for order in (speaking, speaking[::-1])[: len(speaking)]:
            batch = tuple(name for at in range(total) for name in order if at < len(world.up[name]))
            yield Move(f"C hears at once {total} messages, {order[0]} first", partial(World.hear, names=batch))
    if world.centre.is_computing:
        yield Move("C ends a computation", World.compute)


def _faults(world: World) -> Iterator[Move]:
    for up, queues in ((True, world.up), (False, world.down)):
        for name, queue in queues.items():
            if queue:
                first = world.up[name][0][1] if up else world.down[name][0]
                yield from _to_message(name, f"{_kind(first)} {'of' if up else 'to'} {name}", up, len(queue))
    for name in world.homes:
        yield from _to_participant(world, name)
    if not world.centre.is_down:
        yield _fault("C is killed and started again", World.crash, sent=False)
        if any(world.down.values()):
            yield _fault("C is killed and started again; what it said arrives", World.crash, sent=True)
    due = world.deadline()
    if due is not None and (any(world.up.values()) or any(world.down.values()) or _works(world)):
        yield _time(due, "everything takes so long that time passes", is_fault=True)


def _works(world: World) -> bool:
    return world.centre.is_computing or any(home.job is not None for home in world.homes.values())


def _to_message(name: str, what: str, up: bool, waiting: int) -> Iterator[Move]:
    yield _fault(f"{what} is lost", World.lose, name=name, up=up)
    yield _fault(f"{what} comes twice", World.repeat, name=name, up=up, at_end=False)
    yield _fault(f"{what} comes late", World.hold_up, name=name, up=up)
    if waiting > 1:
        yield _fault(f"{what} comes again later", World.repeat, name=name, up=up, at_end=True)
        yield _fault(f"{what} is overtaken", World.overtake, name=name, up=up)


def _to_participant(world: World, name: str) -> Iterator[Move]:
    home = world.homes[name]
    if name in world.asleep:
        return
    if home.connection is not None and name not in world.broken:
        yield _fault(f"the connection of {name} is cut", World.cut, name=name)
        yield _fault(f"the connection of {name} goes dead", World.darken, name=name)
    text = f"{name} is killed and started again"
    yield _fault(text, World.kill, name=name, sent=False, saved=False)
    if world.up[name]:
        yield _fault(f"{text}; what it said arrives", World.kill, name=name, sent=True, saved=False)
    if world.is_saved_by_end(name):
        yield _fault(f"{text} just after its work was saved", World.kill, name=name, sent=True, saved=True)
    if home.end is None:
        yield _fault(f"{name} stands still for long", World.sleep, name=name)


def _fault(text: str, act: Callable[..., None], **given: object) -> Move:
    return Move(text, partial(act, **given), is_fault=True)


@lru_cache(maxsize=50_000)
def _kind(frames: tuple[bytes, ...]) -> str:
    """The kind of a message, and its round, for a reader."""
    message = decode(frames)
    round_no = getattr(message, "round_no", None)
    offset = getattr(message, "offset", None)
    more = "" if round_no is None or message.KIND in ("welcome", "heartbeat") else f" {round_no}"
    return message.KIND + more + ("" if offset is None else f" at {offset}")
