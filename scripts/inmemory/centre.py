"""Runs the coordinator between socket and disk: the real shell, exchange and machine over stand-ins in memory.

`boot` starts a process; a crash is another `boot` over the same disk. `turn` is one turn of the real shell with the
messages passed to it. The caller, who plays the network, decides which messages arrive when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from coordinator.decisions import events
from coordinator.decisions.facts import Fact
from coordinator.decisions.machine import RoundMachine
from coordinator.observers import Observers
from coordinator.record.disk import SpaceGuard
from coordinator.record.journal import Ledger, fact_of
from coordinator.server import Coordinator, Parts
from coordinator.wire.connections import Arrivals, Deliveries, Limits, Peers
from coordinator.wire.exchange import Exchange, Orders
from coordinator.wire.router import Received, Router
from protocol.contracts import Buffer
from protocol.traffic import Dispatch, Intake
from scripts.inmemory.disk import Forms, MemoryCompute, MemoryDisk, MemoryJobs, MemoryStore
from scripts.inmemory.setup import HEARTBEAT_S, RUN, Setup

Frames = tuple[bytes, ...]
Addressed = tuple[str, Frames]
"""A connection and a message on it."""


class Clock:
    """A clock in seconds, set by the caller."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def read(self) -> float:
        return self.now


class Socket:
    """Stands in for the router: messages in `box` are received, sent ones are appended to `sent`, and peers that are
    not members can always be reached."""

    def __init__(self, members: Sequence[str]) -> None:
        self._members = members
        self.box: list[Received] = []
        self.sent: list[Addressed] = []
        self.reachable: frozenset[str] = frozenset()
        self.lost_messages = 0

    def received(self, most: int) -> list[Received]:
        taken, self.box = self.box[:most], self.box[most:]
        return taken

    def send(self, connection: str, frames: Sequence[Buffer]) -> bool:
        if connection not in self.reachable and connection.partition("#")[0] in self._members:
            return False
        self.sent.append((connection, tuple(map(bytes, frames))))
        return True

    def send_slice(self, connection: str, frames: Sequence[Buffer]) -> bool:
        return self.send(connection, frames)

    def has_room(self, connection: str) -> bool:
        del connection
        return True

    def flush(self) -> list[str]:
        return []

    def forget(self, connection: str) -> None:
        """Do nothing: no state is kept per connection."""

    def trust(self, connection: str) -> None:
        """Do nothing: there are no limits here."""

    def wake(self) -> None:
        """Do nothing: nobody sleeps."""


class CoordinatorRun(Coordinator):
    """One process life of the real shell; its computing thread is a list."""

    def __init__(self, parts: Parts, clock: Clock) -> None:
        super().__init__(parts, clock=clock.read)
        self._compute.close()
        self.compute = MemoryCompute()
        self.heard_of = 0
        self._compute = cast(Any, self.compute)

    def begin(self) -> None:
        """Do what `run` does before it waits for the first time."""
        self._decide(events.Started())
        self._act()

    def turn(self) -> None:
        self._turn()

    @property
    def uninspected(self) -> int:
        """Number of reports that wait to be inspected together."""
        return len(self._uninspected)

    def waits_s(self) -> float | None:
        return self._patience()

    @property
    def is_over(self) -> bool:
        return self._stopped is not None


class MemoryCoordinator:
    """The coordinator. is_down: its run and its process have ended. mark: its fingerprint, None once it changes."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.mark: str | None = None
        self.marked_for: dict[str, int] = {}
        self.boot()

    def boot(self) -> None:
        """Start a new process over what the disk holds."""
        setup, store, forms = self._setup, MemoryStore(self.disk), Forms(self._setup)
        self.machine = machine = RoundMachine(setup.rules)
        self.socket = Socket(setup.names)
        router, kept, formed = cast(Router, self.socket), cast(Any, store), cast(Any, forms)
        limits = Limits(updates=(setup.layout,), statistics_bytes=64)
        arrivals = Arrivals(store=kept, limits=limits, intake=Intake(digest=store.incoming.digest), judge=machine)
        deliveries = Deliveries(Dispatch())
        self.exchange = exchange = Exchange(
            router=router,
            peers=Peers(messages_per_s=1e9),
            arrivals=arrivals,
            deliveries=deliveries,
            admits=_anybody,
        )
        orders = Orders(
            run=RUN, plan=setup.plan, heartbeat_s=HEARTBEAT_S, forms=formed, deliveries=deliveries, exchange=exchange
        )
        parts = Parts(
            machine=machine,
            journal=self.disk.journal,
            ledger=Ledger(self.disk.journal, traffic=exchange.taken_traffic, traffic_file=None),
            store=kept,
            forms=formed,
            jobs=cast(Any, MemoryJobs(setup, store, forms)),
            router=router,
            exchange=exchange,
            arrivals=arrivals,
            orders=orders,
            space=SpaceGuard(
                free_bytes=_plenty,
                can_write=bool,
                members=_one,
                row_bytes=0,
                reserve_bytes=0,
                clock=self.clock.read,
            ),
            allowed=_no_list,
            release=_keep_folder,
            observers=Observers(()),
            list_fault=str,
            older_advice="",
        )
        self.life = CoordinatorRun(parts, self.clock)
        self.is_down = machine.state.ended
        if not self.is_down:
            self.life.begin()

    def receive(self, messages: Sequence[Addressed]) -> None:
        """Run one turn with these messages, in this order."""
        if not self.is_down:
            self.socket.box = [
                Received(connection=one, identity="", address="", frames=frames) for one, frames in messages
            ]
            self.life.turn()
            self.is_down = self.life.is_over

    def compute(self) -> None:
        """Finish the computing thread's next job and pass its result to the shell."""
        self.life.compute.let_through()
        self.receive(())

    @property
    def is_computing(self) -> bool:
        return not self.is_down and bool(self.life.compute.waiting)

    def deadline(self) -> float | None:
        """Return when the shell would wake up by itself."""
        waits_s = None if self.is_down else self.life.waits_s()
        return None if waits_s is None else self.clock.now + waits_s

    def last_fact_s(self) -> float:
        """Return the run-clock time of the last journal entry, where the clock of the next process starts."""
        latest = list(self.disk.journal.entries(self.life.heard_of))
        self.life.heard_of += max(len(latest) - 1, 0)
        return latest[-1].time_s if latest else 0.0

    def facts(self) -> list[Fact]:
        """Return everything in the journal."""
        return [fact_of(entry) for entry in self.disk.journal.entries()]


def _anybody(key: str) -> bool:
    del key
    return True


def _no_list() -> None:
    return None


def _keep_folder() -> None:
    return None


def _plenty() -> int:
    return 1 << 40


def _one() -> int:
    return 1
