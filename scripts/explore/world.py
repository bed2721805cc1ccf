"""A federation with faults: what a network, a power cut and a slow machine do, as single steps.

Each fault is one method. A late message waits outside the queues until its time; a sleeping participant takes no step.
`moves` decides which steps are possible and how many faults a path may have.
"""

from __future__ import annotations

from dataclasses import dataclass

from participant.decisions.events import Reported
from protocol.codec import decode
from protocol.messages import Heartbeat, Stats
from scripts.inmemory.centre import Addressed, Frames
from scripts.inmemory.federation import MakeHome, MemoryFederation
from scripts.inmemory.home import MemoryHome
from scripts.inmemory.setup import DEAD_AFTER_S, HEARTBEAT_S, Setup

LATE_S = 1.5 * HEARTBEAT_S
"""A late message arrives after the next heartbeats."""

SLEEP_S = 1.5 * DEAD_AFTER_S
"""A sleeping participant is declared dead before it wakes."""


@dataclass(frozen=True, kw_only=True)
class Late:
    """A delayed message. up: towards the coordinator, with its connection; until: when it arrives."""

    until: float
    name: str
    connection: str
    frames: Frames
    up: bool


class World(MemoryFederation):
    """faults_left: how many more may happen on this path. promised: by member, the latest report confirmed to it."""

    def __init__(self, setup: Setup, faults: int, make_home: MakeHome = MemoryHome) -> None:
        self.faults_left = faults
        self.late: list[Late] = []
        self.asleep: dict[str, float] = {}
        self.dark: set[str] = set()
        self.promised: dict[str, tuple[int, int]] = {}
        self.checked = 0
        self.was_thought_dead = False
        super().__init__(setup, make_home)

    # ---- the network

    def send_down(self, name: str, frames: Frames) -> None:
        if name in self.dark:
            return
        super().send_down(name, frames)
        if b"heartbeat" in frames[0][:16]:
            beat = decode(frames)
            if isinstance(beat, Heartbeat) and beat.have is not None:
                self.promised[name] = max(self.promised.get(name, (-1, -1)), beat.have.place)

    def send_up(self, name: str, connection: str, frames: Frames) -> None:
        if name not in self.dark:
            super().send_up(name, connection, frames)

    def line_gone(self, name: str) -> None:
        super().line_gone(name)
        self.dark.discard(name)

    # ---- time

    def deadline(self) -> float | None:
        times = [super().deadline(), *(one.until for one in self.late), *self.asleep.values()]
        return min((time for time in times if time is not None), default=None)

    def awake(self) -> dict[str, MemoryHome]:
        return {name: home for name, home in self.homes.items() if name not in self.asleep}

    def pass_time(self, until: float) -> None:
        """Advance the clock; sleeping participants do not notice until they wake."""
        now = max(self.now, until)
        self.asleep = {name: time for name, time in self.asleep.items() if time > now}
        due = [one for one in self.late if one.until <= now]
        self.late = [one for one in self.late if one.until > now]
        for one in due:
            self._arrive(one)
        super().pass_time(until)

    def _arrive(self, late: Late) -> None:
        if late.up and not self.centre.is_down:
            self.up[late.name].append((late.connection, late.frames))
        elif not late.up and self.homes[late.name].connection == late.connection:
            self.down[late.name].append(late.frames)

    # ---- faults: messages

    def lose(self, name: str, *, up: bool) -> None:
        queue: list[Addressed] | list[Frames] = self.up[name] if up else self.down[name]
        del queue[0]

    def repeat(self, name: str, *, up: bool, at_end: bool) -> None:
        """Duplicate the next message: immediately, or after everything in transit."""
        queue: list[Addressed] | list[Frames] = self.up[name] if up else self.down[name]
        queue.insert(len(queue) if at_end else 1, queue[0])  # type: ignore[arg-type]

    def overtake(self, name: str, *, up: bool) -> None:
        """Swap the next message with the one behind it."""
        queue: list[Addressed] | list[Frames] = self.up[name] if up else self.down[name]
        queue.insert(1, queue.pop(0))  # type: ignore[arg-type]

    def hold_up(self, name: str, *, up: bool) -> None:
        """Delay the next message; others overtake it."""
        if up:
            connection, frames = self.up[name].pop(0)
        else:
            connection, frames = str(self.homes[name].connection), self.down[name].pop(0)
        until = self.now + LATE_S
        self.late.append(Late(name=name, connection=connection, frames=frames, up=up, until=until))

    # ---- faults: connections and processes

    def cut(self, name: str) -> None:
        """Break the connection; everything in transit on it is lost, and both sides notice."""
        self.up[name].clear()
        self.down[name].clear()
        self.broken.add(name)

    def darken(self, name: str) -> None:
        """Keep the connection open, but let it carry nothing any more; neither side notices."""
        self.up[name].clear()
        self.down[name].clear()
        self.dark.add(name)

    def sleep(self, name: str) -> None:
        self.asleep[name] = self.now + SLEEP_S

    def kill(self, name: str, *, sent: bool, saved: bool) -> None:
        """Kill and restart a participant. sent: what it has sent arrives; saved: its work was on disk."""
        home = self.moving(name)
        if saved:
            home.save()
        if not sent:
            self.up[name].clear()
        home.boot()
        self._deliver_up(home)

    def crash(self, *, sent: bool) -> None:
        """Kill and restart the coordinator over its disk. sent: what it has sent arrives."""
        self.break_lines()
        self.dark.clear()
        self.late = [one for one in self.late if not one.up]
        if not sent:
            for queue in self.down.values():
                queue.clear()
        before = self.centre.machine.digest()
        centre = self.moving_centre()
        centre.boot()
        if centre.machine.digest() != before:
            raise AssertionError("the journal tells another state than the one that was decided on")
        for name, place in self.promised.items():
            answered = centre.machine.state.members[name].answered
            if answered is None or answered.place < place:
                raise AssertionError(f"{name} was told that its report is here, and after a crash it is not")
        self._deliver_down()

    def is_saved_by_end(self, name: str) -> bool:
        """Whether work in progress writes something to disk when it ends."""
        job = self.homes[name].job
        return isinstance(job, Reported) and not isinstance(job.report, Stats)
