"""Connects a coordinator and its participants by queues: a network without faults, one step at a time.

Messages of one connection stay in order. What a participant has sent arrives even if its connection ends; what was sent
to it does not. Time passes when nothing else can happen. The caller decides who moves next; faults are not here. A copy
shares the parties with its original until one of them moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from scripts.inmemory.centre import Addressed, Frames, MemoryCoordinator
from scripts.inmemory.copying import copied
from scripts.inmemory.home import MemoryHome
from scripts.inmemory.setup import Setup

MakeHome = Callable[[Setup, str], MemoryHome]


class MemoryFederation:
    """A federation in memory. up: (connection, message) by member, oldest first; down: messages by member. `centre` and
    `homes` may be read; to change one, get it by `moving_centre` or `moving` first."""

    def __init__(self, setup: Setup, make_home: MakeHome = MemoryHome) -> None:
        self.setup = setup
        self.now = 0.0
        self.up: dict[str, list[Addressed]] = {name: [] for name in setup.names}
        self.down: dict[str, list[Frames]] = {name: [] for name in setup.names}
        self.broken: set[str] = set()
        """Members whose connection the coordinator has lost: they notice when they have read everything."""
        self.centre = MemoryCoordinator(setup)
        self.homes: dict[str, MemoryHome] = {name: make_home(setup, name) for name in setup.names}
        self._own: set[str] = {"C", *setup.names}

    def copy(self) -> Self:
        """Return an equal federation; the parties are shared until they move."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, list | set):
                setattr(other, name, value.copy())
            elif isinstance(value, dict):
                fresh = {key: one.copy() if isinstance(one, list) else one for key, one in value.items()}
                setattr(other, name, fresh)
        self._own, other._own = set(), set()
        return other

    def moving(self, name: str) -> MemoryHome:
        """Return a participant that is about to change; from now on it is not shared with other copies."""
        if name not in self._own:
            self.homes[name] = copied(self.homes[name])
            self._own.add(name)
        home = self.homes[name]
        home.mark = None
        return home

    def moving_centre(self) -> MemoryCoordinator:
        """Return the coordinator, which is about to change, and set which connections it can reach."""
        if "C" not in self._own:
            self.centre = copied(self.centre)
            self._own.add("C")
        self.centre.mark = None
        standing = [home.connection for name, home in self.homes.items() if name not in self.broken]
        self.centre.socket.reachable = frozenset(one for one in standing if one is not None)
        return self.centre

    # ---- the network

    def _deliver_down(self) -> None:
        """Queue what the coordinator has sent; if its run is over, its socket closes too."""
        sent, self.centre.socket.sent = self.centre.socket.sent, []
        for connection, frames in sent:
            name = connection.partition("#")[0]
            if name in self.homes and self.homes[name].connection == connection:
                self.send_down(name, frames)
        if self.centre.is_down:
            self.break_lines()

    def _deliver_up(self, home: MemoryHome) -> None:
        sent, home.sent = home.sent, []
        for connection, frames in sent:
            if home.name not in self.broken:
                self.send_up(home.name, connection, frames)
        if home.connection is None:
            self.line_gone(home.name)

    def delivered(self, name: str) -> None:
        """Queue what a participant has sent, for callers that move it directly."""
        self._deliver_up(self.homes[name])

    def send_down(self, name: str, frames: Frames) -> None:
        self.down[name].append(frames)

    def send_up(self, name: str, connection: str, frames: Frames) -> None:
        self.up[name].append((connection, frames))

    def line_gone(self, name: str) -> None:
        """Drop messages to a participant whose connection is gone."""
        self.down[name].clear()
        self.broken.discard(name)

    def break_lines(self) -> None:
        """Close the coordinator's end of every connection and drop all messages on the way to it."""
        for name, home in self.homes.items():
            self.up[name].clear()
            if home.connection is not None:
                self.broken.add(name)

    # ---- steps

    def connect(self, name: str) -> None:
        """Open the requested connection, or refuse it because nobody listens."""
        home = self.moving(name)
        if self.centre.is_down:
            home.lost("refused")
        else:
            home.connected()
        self._deliver_up(home)

    def receive(self, name: str, count: int) -> None:
        """Let a participant take `count` messages from its socket at once."""
        home = self.moving(name)
        batch, self.down[name] = self.down[name][:count], self.down[name][count:]
        home.receive(batch)
        self._deliver_up(home)

    def work(self, name: str) -> None:
        home = self.moving(name)
        home.finish_work()
        self._deliver_up(home)

    def hung_up(self, name: str) -> None:
        """Let a participant that has read everything notice that the other side is gone."""
        home = self.moving(name)
        home.lost("closed")
        self._deliver_up(home)

    def deliver(self, names: tuple[str, ...]) -> None:
        """Let the coordinator take one message of each name from its socket, all in one turn."""
        self.send([self.up[name].pop(0) for name in names])

    def send(self, messages: list[Addressed]) -> None:
        """Let the coordinator receive these messages, whoever sent them."""
        self.moving_centre().receive(messages)
        self._deliver_down()

    def compute(self) -> None:
        self.moving_centre().compute()
        self._deliver_down()

    def deadline(self) -> float | None:
        """Return when the next timeout is due."""
        times = [self.centre.deadline(), *(home.machine.next_deadline() for home in self.awake().values())]
        return min((time for time in times if time is not None), default=None)

    def awake(self) -> dict[str, MemoryHome]:
        """Return the participants whose timeouts run."""
        return self.homes

    def pass_time(self, until: float) -> None:
        """Advance the clock and handle all timeouts that are due."""
        self.now = max(self.now, until)
        self.moving_centre().clock.now = self.now
        self.send([])
        awake = self.awake()
        for name in self.homes:
            home = self.moving(name)
            home.clock.now = self.now
            due = home.machine.next_deadline()
            if name in awake and due is not None and due <= self.now:
                home.tick()
                self._deliver_up(home)

    # ---- a schedule without choices

    def step(self) -> bool:
        """Take the next steps, fairly; False if nothing can happen any more."""
        moved = False
        for name in list(self.awake()):
            home = self.homes[name]
            if home.is_opening:
                self.connect(name)
            elif self.down[name]:
                self.receive(name, len(self.down[name]))
            elif home.job is not None:
                self.work(name)
            elif name in self.broken:
                self.hung_up(name)
            else:
                continue
            moved = True
        waiting = tuple(name for name, queue in self.up.items() if queue)
        if waiting and not self.centre.is_down:
            self.deliver(waiting)
        elif self.centre.is_computing:
            self.compute()
        elif not moved:
            due = self.deadline()
            if due is None:
                return False
            self.pass_time(due)
        return True
