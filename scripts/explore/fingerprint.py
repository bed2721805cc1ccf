"""Decides when two states of a federation are equal: a digest of everything that can make a difference from now on.

Times count as seconds from now, and only while a decision can depend on them (`_TIMES_THAT_MATTER` gives the reasons).
A due time counts as now once it is past, because the code only asks whether it has come. Connections and processes are
numbered from the newest. Tickets and counters that are only labels are left out, and so is the journal, whose content
is reflected in the machine's state. What never changes in a run (rules, plan, tables of handlers) is left out for
speed. Everything else is included, so that new fields count without being listed here: a superfluous difference costs
time, but never hides a state.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import re
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

import numpy as np

from coordinator.decisions.actions import Aggregate
from coordinator.decisions.older_folder import OlderFolder
from coordinator.decisions.roster import Link, Roster
from coordinator.decisions.state import Recipe, State
from coordinator.decisions.work import PendingWork
from coordinator.wire.connections import Peer
from coordinator.wire.exchange import LIFE_SIGN_EVERY_S
from participant.decisions.machine import AgentMachine
from participant.decisions.reconnection import ConnectionState
from scripts.explore.world import World
from scripts.inmemory.centre import CoordinatorRun, MemoryCoordinator
from scripts.inmemory.disk import Forms
from scripts.inmemory.home import MemoryHome
from scripts.inmemory.setup import DEAD_AFTER_S, HEARTBEAT_S, life_of

TIMES = frozenset({"until", "_deadline", "_opening_until"})
"""Fields that hold an absolute time, besides those whose name ends with `_at`."""

DUE = frozenset({"until", "_deadline", "_opening_until", "_retry_at", "_hello_at", "_beat_at", "_farewell_at"})
"""Times at which something is due: the code only asks whether they have come."""

IGNORED = frozenset(
    {
        "counts", "_traffic", "_checked_at", "_contact_at", "serial", "lives", "heard_of", "faults",
        "lost_messages", "messages", "answers", "_allowances", "_addresses", "_all_strangers",
        "reachable", "moved", "announced", "refused", "last_loss", "accepted_at",
        "_setup", "rules", "_rules", "clock", "_clock", "journal", "_parts", "_wants", "_compute", "socket", "_hello",
        "mark", "marked_for", "sent", "held_since", "latest_update_round",
    }
)  # fmt: skip
"""Fields that are only counters, that end no wait in these runs, that are used only in texts or by a law, that are set
before they are read, or that never change. They include ages of updates (`accepted_at`), which affect only weights, on
which no step depends, and the update that a connection brought last (`latest_update_round`), which is read only where
rows are sent as differences; here they are sent whole."""

_LEFT_OUT: dict[type, frozenset[str]] = {
    Recipe: frozenset({"weights"}),
    Aggregate: frozenset({"ticket", "weights"}),
}
"""Fields of immutable objects that follow from their other fields and the state; tickets are always labels."""
_TICKET = frozenset({"ticket"})

_SHOWN: dict[type, dict[str, Callable[[Any], object]]] = {
    AgentMachine: {"_welcome": lambda machine: machine._welcome and machine._welcome.run},  # its round is `_ordered`
    ConnectionState: {
        "_has_delivered": lambda line: line.is_open and line._has_delivered,
        "_needed": lambda line: line._needed if line.is_open else None,
        "_is_being_answered": lambda line: line._hello_at is not None and line._is_being_answered,
    },
    Link: {
        "process": lambda link: link.process and life_of(link.process),
        "replaced": lambda link: Counter(map(life_of, link.replaced)),  # only the number of each is read
    },
    OlderFolder: {"_beats": lambda folder: {one: folder._beats[one] for one in sorted(folder._suspects)}},
}
"""Fields of which only a part is ever read: of a line, those that opening or hello does not reset; of beats, those of
suspects, since no operator agrees to an older folder."""

_LONG_AGO_S = -70.0
"""Longer than the longest wait of the model: beyond it, how long ago something was makes no difference."""

_TIMES_THAT_MATTER: dict[tuple[type, str], Callable[[Any], bool]] = {
    (State, "began_at"): lambda _state: False,  # only compared with None
    (State, "opened_at"): lambda state: state.stage.is_over,  # other waits from it never end, or end at once
    (CoordinatorRun, "_gathered_at"): lambda life: bool(life.uninspected),  # otherwise it is set before it is read
    (Link, "sent_at"): lambda link: link.connection is not None,  # heartbeats need a connection
    (ConnectionState, "_heard_at"): lambda line: line.is_open,  # opening resets it
}
"""Time fields that no decision reads in some states; the function gets their owner."""

_REACH_S: dict[tuple[type, str], float] = {
    (Link, "received_at"): -DEAD_AFTER_S,
    (Link, "sent_at"): -HEARTBEAT_S,
    (Peer, "life_sign_at"): -LIFE_SIGN_EVERY_S,
}
"""How far back a time can matter: until the wait from it is over."""

_NUMBERED = re.compile(r"\b([a-h][#!])(\d+)")
_PROCESS = re.compile(rb"\xa7process\xd9\x20([0-9a-f]{32})")
_frozen_texts: dict[int, tuple[object, str]] = {}
"""Texts of immutable objects by id; the object is kept, so that its id is not reused."""


def fingerprint(world: World) -> bytes:
    """Return a digest, equal for states from which the same can happen. A party's mark is valid until it moves."""
    parties: list[object] = [_mark_of_centre(world)]
    parties += [_mark_of(home) for home in world.homes.values()]
    walk = _Walk(world.now, _newest(world.homes.values()))
    late = [
        (one.name, one.up, walk.text(one.connection), one.frames, round(one.until - world.now, 6)) for one in world.late
    ]
    asleep = [(name, round(time - world.now, 6)) for name, time in sorted(world.asleep.items())]
    between = walk.of([world.up, world.down, world.broken, world.dark, late, asleep])
    found = repr((parties, between, world.faults_left, world.was_thought_dead))
    return hashlib.blake2b(found.encode(), digest_size=16).digest()


def _mark_of(home: MemoryHome) -> str:
    if home.mark is None:
        home.mark = _digest(repr(_Walk(home.clock.now, _newest([home])).home(home)).encode())
    return home.mark


def _mark_of_centre(world: World) -> str:
    centre = world.centre
    newest = _newest(world.homes.values())
    if centre.mark is None or centre.marked_for != newest:
        centre.marked_for = newest
        centre.mark = _digest(repr(_Walk(centre.clock.now, newest).centre(centre)).encode())
    return centre.mark


def _newest(homes: Iterable[MemoryHome]) -> dict[str, int]:
    """Return the latest connection (a#) and the current process (a!) of each participant."""
    return {key: number for one in homes for key, number in ((f"{one.name}#", one.serial), (f"{one.name}!", one.lives))}


class _Walk:
    """One walk over everything reachable; an object met again is skipped. newest: each member's latest connection and
    process."""

    def __init__(self, now: float, newest: dict[str, int]) -> None:
        self._now = now
        self._newest = newest
        self._met: set[int] = set()

    def of(self, value: Any) -> object:  # noqa: ANN401 - anything
        handler = _HANDLERS.get(type(value)) or _learn(type(value))
        return handler(self, value)

    def same(self, value: object) -> object:
        return value

    def text(self, value: str) -> str:
        return self._aged(value) if "#" in value or "!" in value else value

    def number(self, value: float) -> object:
        return round(value, 6)

    def sequence(self, value: Any) -> object:  # noqa: ANN401
        return [self.of(one) for one in value]

    def message(self, value: tuple[Any, ...]) -> object:
        """Handle tuples: most are frames, which copies of a world share."""
        if value and type(value[0]) is bytes:
            return self._aged(_remembered(value, lambda: _frames_text(value)))
        return [self.of(one) for one in value]

    def mapping(self, value: dict[Any, Any]) -> object:
        found = [(repr(self.of(key)), self.of(one)) for key, one in value.items()]
        found.sort(key=_first)
        return found

    def group(self, value: set[Any]) -> object:
        return sorted([repr(self.of(one)) for one in value])

    def name(self, value: object) -> object:
        return str(value)

    def bulk(self, value: Any) -> object:  # noqa: ANN401
        return _remembered(value, lambda: _digest(bytes(value)))

    def buffer(self, value: bytearray) -> object:
        return bytes(value)

    def nothing(self, value: object) -> object:
        del value
        return None

    def frozen(self, value: object) -> object:
        text = _remembered(value, lambda: self._frozen_text(value))
        return self._aged(text) if "#" in text else text

    def _frozen_text(self, value: object) -> str:
        left_out = _LEFT_OUT.get(type(value), _TICKET)
        names = [one.name for one in dataclasses.fields(value) if one.name not in left_out]  # type: ignore[arg-type]
        text = repr((type(value).__name__, [_Plain.of(getattr(value, name)) for name in names]))
        return text if len(text) < 60 or _NUMBERED.search(text) else _digest(text.encode())

    def thing(self, value: Any) -> object:  # noqa: ANN401
        if id(value) in self._met:
            return None
        self._met.add(id(value))
        return [type(value).__name__, *self._fields(value)]

    def _fields(self, value: Any) -> list[object]:  # noqa: ANN401
        found: list[object] = []
        shown = _SHOWN.get(type(value), {})
        for name, one in value.__dict__.items():
            if name in IGNORED:
                continue
            if name in shown:
                found.append(self.of(shown[name](value)))
                continue
            if type(one) is float and (name in TIMES or name.endswith("_at")):
                found.append(self._time(value, name, one))
            else:
                handler = _HANDLERS.get(type(one)) or _learn(type(one))
                found.append(handler(self, one))
        return found

    def _time(self, owner: object, name: str, time: float) -> object:
        """Return the distance from now, as far as it can make a difference."""
        matters = _TIMES_THAT_MATTER.get((type(owner), name))
        if matters is not None and not matters(owner):
            return None
        least_s = 0.0 if name in DUE else _REACH_S.get((type(owner), name), _LONG_AGO_S)
        return round(max(time - self._now, least_s), 6)

    def roster(self, value: Roster) -> object:
        """Include only the number of a member's changes, which is far below its limit."""
        fields = {**value.__dict__, "_changed": {name: len(at) for name, at in value.__dict__["_changed"].items()}}
        return self.mapping(fields)

    def centre(self, value: MemoryCoordinator) -> object:
        """Handle the coordinator. Its times are on the run clock, which stops between processes and resumes at the last
        fact's time; that time counts only at the end, while the run waits for absent members."""
        if value.is_down:
            return [str(value.machine.state.stage), self.of(value.machine.state.members)]
        outside, self._now = self._now, value.life.now()
        found = self.thing(value)
        quiet_s = self._now - value.last_fact_s()
        self._now = outside
        is_over = value.machine.state.stage.is_over
        return [found, round(min(quiet_s, -_LONG_AGO_S), 6) if is_over else None]

    def home(self, value: MemoryHome) -> object:
        if value.end is not None:
            return [value.name, value.end.code, self.of(value.disk)]
        return self.thing(value)

    def work(self, value: PendingWork) -> object:
        """Leave out tickets, which are labels."""
        fields = value.__dict__
        weighing, mixing = fields["_weighing"], fields["_mixing"].values()
        return [self.of(fields["_rows"]), self.of(fields["_failed"]), self.of(list(mixing)), weighing and weighing[1]]

    def forms(self, value: Forms) -> object:
        """Include only which rows exist; their content follows from blobs and state."""
        return self.of(set(value.__dict__["_rows"]))

    def _aged(self, text: str) -> str:
        """Number connections and processes by age: the newest of each member is 0."""
        return _NUMBERED.sub(lambda match: f"{match[1]}~{self._newest.get(match[1], 0) - int(match[2])}", text)


class _Still(_Walk):
    """A walk inside immutable objects, where neither times nor connections are relative."""

    def __init__(self) -> None:
        super().__init__(0.0, {})

    def _aged(self, text: str) -> str:
        return text


_Plain = _Still()


def _remembered(value: object, make: Callable[[], str]) -> str:
    found = _frozen_texts.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    if len(_frozen_texts) > 100_000:
        _frozen_texts.clear()
    text = make()
    _frozen_texts[id(value)] = (value, text)
    return text


def _frames_text(frames: tuple[bytes, ...]) -> str:
    """Return a digest; for a hello, with the process that sent it kept apart."""
    said = _PROCESS.search(frames[0])
    if said is None:
        return _digest(b"".join(frames))
    return f"{_digest(b''.join([_PROCESS.sub(b'', frames[0]), *frames[1:]]))} {life_of(said[1].decode())}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


_HANDLERS: dict[type, Callable[[_Walk, Any], object]] = {
    **dict.fromkeys((int, bool, bytes, type(None)), _Walk.same),
    str: _Walk.text,
    float: _Walk.number,
    list: _Walk.sequence,
    deque: _Walk.sequence,
    tuple: _Walk.message,
    **dict.fromkeys((dict, Counter, OrderedDict), _Walk.mapping),
    **dict.fromkeys((set, frozenset), _Walk.group),
    **dict.fromkeys((np.ndarray, memoryview), _Walk.bulk),
    bytearray: _Walk.buffer,
    **dict.fromkeys((types.FunctionType, types.MethodType, types.BuiltinFunctionType, type), _Walk.nothing),
    types.MappingProxyType: _Walk.nothing,
    MemoryCoordinator: _Walk.centre,
    PendingWork: _Walk.work,
    Roster: _Walk.roster,
    Forms: _Walk.forms,
}


def _learn(kind: type) -> Callable[[_Walk, Any], object]:
    frozen = dataclasses.is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009
    handler = _Walk.frozen if frozen else _Walk.thing
    if issubclass(kind, enum.Enum | PurePath):
        handler = _Walk.name
    if issubclass(kind, MemoryHome):
        handler = _Walk.home
    _HANDLERS[kind] = handler
    return handler
