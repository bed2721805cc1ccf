"""Plays one drill: prepares its files, starts the processes, injects faults as scheduled, and gathers the outcome.

`schedule` decides the faults and their times, `judge` whether the drill passed.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from participant.record.private_state import PERSONAL
from scripts.drill import proxy
from scripts.drill.disk import SmallDisk
from scripts.drill.drill_processes import DrillProcesses
from scripts.drill.faults import Attack, Break, Damage, Die, Fault, Fill, Freeze, Kill, NetworkConditions, Slow, Unplug
from scripts.drill.fork_server import ForkServer
from scripts.drill.hostile.attackers import UNDER_NAMES
from scripts.drill.hostile.members import NAME as HOSTILE
from scripts.drill.judge import DrillOutcome
from scripts.drill.model import model_name
from scripts.drill.namespaces import Namespaces
from scripts.drill.repair import Repair
from scripts.drill.schedule import KINDS
from scripts.drill.site import RUN, DrillSite, data_options, free_port
from scripts.drill.spec import COORDINATOR, MEMBERS, PARTIES, Drill
from scripts.drill.watch import Costs, last_line, log_bytes, traces

GLANCE_S = 0.05
DISK_BYTES = 16 << 20
DISK_MODELS = 24
"""Size of a small disk: this many bytes, plus room for this many models."""
TALLY = "attempts"
"""File in which an attacker counts its attempts."""
FULL = ("No space left", "disk is full")
"""By which a party's last words say that its disk has no room."""
PATIENCE_S = 60.0
"""Time that a drill may take beyond ten times the undisturbed run."""

UNDISTURBED_S = 300.0
"""The same for the undisturbed run, whose duration is not known yet: a busy machine may need minutes."""


def write_model_file(fork_server: ForkServer, folder: Path, drill: Drill) -> Path:
    """Write the initial model of the drill's size, unless it exists, and return its path."""
    path = folder / f"initial-{drill.model_bytes}.safetensors"
    if not path.exists():
        half = folder / f"half-{os.getpid()}-{path.name}"
        wanted = {"model": model_name(drill.model_bytes), "data_options": data_options(""), "out": str(half)}
        child = fork_server.start("make model", wanted, log=folder / "model.log")
        while child in fork_server.pids:
            fork_server.ended(1.0)
        half.replace(path)
    return path


def play(
    drill: Drill,
    faults: Sequence[Fault],
    *,
    fork_server: ForkServer,
    folder: Path,
    initial: Path,
    undisturbed: DrillOutcome | None,
) -> DrillOutcome:
    """Play a drill. quiet: the undisturbed run, in whose units faults are given; None if this is that run."""
    folder.mkdir(parents=True)
    kind = KINDS[drill.kind]
    with ExitStack() as stack:
        spaces = stack.enter_context(Namespaces(PARTIES)) if kind.uses_namespaces else None
        disks = _small_disks(drill, folder, stack) if kind.uses_small_disks else {}
        host = "127.0.0.1" if spaces is None else spaces.address(COORDINATOR)
        port = free_port(np.random.default_rng(os.getpid()))
        site = DrillSite(
            drill=drill,
            folder=folder,
            initial=initial,
            address=f"tcp://{host}:{port}",
            secure=drill.curve,
            homes={party: disk.folder / party for party, disk in disks.items()},
            guests=(HOSTILE,) if kind.uses_hostile_member else (),
            deadline_s=kind.deadline_s,
        )
        site.write()
        lines: dict[str, proxy.Proxy] = {}
        if kind.uses_proxy:
            usual = {} if undisturbed is None else undisturbed.line_bytes
            lines = {name: stack.enter_context(_line(site, name, faults, usual)) for name in MEMBERS}
        endpoints = {name: lines[name].endpoint if name in lines else site.address for name in MEMBERS}
        pace_s = 0.0 if undisturbed is None else drill.pace_s
        processes = DrillProcesses(
            fork_server, site, endpoints, namespaces={} if spaces is None else spaces.names, pace_s=pace_s
        )
        played = _Play(drill, faults, processes, site, lines, undisturbed, spaces=spaces, disks=disks)
        stack.callback(processes.end)
        return played.run()


def _small_disks(drill: Drill, folder: Path, stack: ExitStack) -> dict[str, SmallDisk]:
    """Make one disk per party, with little more room than a run of this size needs."""
    size = DISK_BYTES + DISK_MODELS * drill.model_bytes * (2 if drill.sealed else 1)  # sealed values take twice as much
    return {party: stack.enter_context(SmallDisk(folder / f"disk-{party}", size_bytes=size)) for party in PARTIES}


def _line(site: DrillSite, member: str, faults: Sequence[Fault], usual: Mapping[str, int]) -> proxy.Proxy:
    """Make the proxy between a member and the coordinator, with all its faults."""
    found: list[proxy.Fault] = []
    lag = None
    for fault in faults:
        if isinstance(fault, Slow) and fault.member == member:
            lag = proxy.Lag(most_s=fault.delay_s, seed=fault.seed)
        if not isinstance(fault, Break) or fault.member != member:
            continue
        after = int(fault.share * usual.get(member, 0))
        if fault.how == "cut":
            found.append(proxy.Cut(after=after))
        elif fault.how == "half-open":
            found.append(proxy.Swallow(after=after, newcomers=fault.newcomers))
        elif fault.how == "stall":
            found.append(proxy.Hold(after=after, for_s=fault.for_s))
        else:
            found.append(proxy.Twin(after=after, newcomers=fault.newcomers))
    return proxy.Proxy(site.address, found, lag=lag)


class _Play:
    """One run of a federation from its first process to its last."""

    def __init__(
        self,
        drill: Drill,
        faults: Sequence[Fault],
        processes: DrillProcesses,
        site: DrillSite,
        lines: Mapping[str, proxy.Proxy],
        undisturbed: DrillOutcome | None,
        *,
        spaces: Namespaces | None,
        disks: Mapping[str, SmallDisk],
    ) -> None:
        self._spaces = spaces
        self._disks = disks
        self._drill = drill
        self._processes = processes
        self._site = site
        self._lines = lines
        self._costs = Costs()
        self._repair = Repair(processes, site)
        self._injected = 0
        self._began = time.monotonic()
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._unit_s = 0.0 if undisturbed is None else undisturbed.seconds
        least_s = PATIENCE_S if undisturbed is not None else UNDISTURBED_S
        self._patience_s = least_s + 10.0 * self._unit_s + 4.0 * drill.rounds * drill.pace_s
        for fault in faults:
            self._plan(fault)

    def _at(self, moment: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (moment, next(self._order), act))

    def _plan(self, fault: Fault) -> None:
        if isinstance(fault, Damage):
            self._at(self._began + fault.at * self._unit_s, lambda: self._damage(fault))
        elif isinstance(fault, Kill | Freeze | Fill | Unplug):
            self._at(self._began + fault.at * self._unit_s, lambda: self._strike(fault))
        elif isinstance(fault, NetworkConditions) and self._spaces is not None:
            self._spaces.change(fault)
            self._injected += 1
        elif isinstance(fault, Die):
            self._processes.schedule_death(fault)
        elif isinstance(fault, Attack):
            self._at(self._began, lambda: self._attack(fault))

    def _strike(self, fault: Kill | Freeze | Fill | Unplug) -> None:
        """Inject a fault, unless its party has already ended, and undo it later."""
        if fault.party not in self._processes.pids:
            return
        if isinstance(fault, Kill):
            self._processes.kill(fault.party, pause_s=fault.pause_s)
            return
        self._injected += 1
        self._turn(fault, on=True)
        self._at(time.monotonic() + fault.for_s, lambda: self._turn(fault, on=False))

    def _turn(self, fault: Freeze | Fill | Unplug, *, on: bool) -> None:
        if isinstance(fault, Freeze):
            self._processes.send(fault.party, signal.SIGSTOP if on else signal.SIGCONT)
        elif isinstance(fault, Fill):
            disk = self._disks[fault.party]
            disk.fill() if on else disk.free()
            self._processes.parties[fault.party].lacked_room = True
        elif self._spaces is not None:
            self._spaces.plug(fault.party, connected=not on)

    def _begin_again(self) -> None:
        """What an operator does when there is room: start a party that refused to begin on a full disk, once."""
        for name, disk in self._disks.items():
            party = self._processes.parties[name]
            if party.child is None and party.code == 2 and party.lacked_room and not disk.is_full:
                party.lacked_room = False
                if any(words in last_line(self._site.log(name)) for words in FULL):
                    self._processes.start(name)

    def _damage(self, fault: Damage) -> None:
        if not self._repair.strike(fault):
            self._at(time.monotonic() + GLANCE_S, lambda: self._damage(fault))

    def _attack(self, fault: Attack) -> None:
        """Start an attack at once or, if it uses members' names, after all of them have joined."""
        if fault.name in UNDER_NAMES and not all(self._site.has_joined(name) for name in MEMBERS):
            self._at(time.monotonic() + GLANCE_S, lambda: self._attack(fault))
            return
        settings = {
            "attack": fault.name,
            "endpoint": self._site.address,
            "seed": fault.seed,
            "initial": str(self._site.initial),
            "members": MEMBERS,
            "run": RUN,
            "keys": str(self._site.folder) if self._site.secure else "",
            "tally": str(self._site.folder / TALLY),
        }
        self._processes.invite("attack", settings, name="attacker")
        self._injected += 1

    def run(self) -> DrillOutcome:
        for name in (COORDINATOR, *MEMBERS):
            self._processes.start(name)
        look_at = 0.0
        until = self._began + self._patience_s
        while not (self._processes.is_over or self._processes.failed) and (now := time.monotonic()) < until:
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            if now >= look_at:
                self._costs.sample(self._processes.pids)
                look_at = now + GLANCE_S
            wait_s = min([look_at, *(moment for moment, _, _ in self._due[:1])]) - now
            dead = self._processes.collect_killed(max(wait_s, 0.0))
            self._repair.check()
            self._begin_again()
            for party in dead:
                name = party.name
                self._at(time.monotonic() + party.pause_s, lambda name=name: self._processes.start(name))  # type: ignore[misc]
        return self._outcome()

    def _outcome(self) -> DrillOutcome:
        seconds = time.monotonic() - self._began
        logs = {name: self._site.log(name) for name in self._processes.parties}
        faults = [f"{party} logged an exception" for party in traces(logs)]
        faults += [f"{name}'s last words: {last_line(logs[name])}" for name in self._processes.failed]
        return DrillOutcome(
            models={name: digests(path) for name in MEMBERS if (path := self._site.home(name) / PERSONAL).is_file()},
            codes={
                name: None if party.child is not None else party.code for name, party in self._processes.parties.items()
            },
            seconds=seconds,
            struck=self._injected + self._processes.injected + sum(line.strikes for line in self._lines.values()),
            memory_bytes=dict(self._costs.memory_bytes),
            files=dict(self._costs.files),
            log_bytes=log_bytes(logs),
            line_bytes={name: line.forwarded for name, line in self._lines.items()},
            faults=tuple(faults),
            lost_state=self._repair.lost_state,
            notes=self._notes(),
        )

    def _notes(self) -> dict[str, object]:
        tally = self._site.folder / TALLY
        attempts = {"attempts": int(tally.read_text(encoding="utf-8"))} if tally.exists() else {}
        return {**attempts, **({"damage": self._repair.done} if self._repair.done else {})}


def digests(path: Path) -> dict[str, str]:
    """Return a digest of each tensor in a model file."""
    return {
        name: hashlib.sha256(f"{array.dtype} {array.shape}".encode() + array.tobytes()).hexdigest()[:16]
        for name, array in sorted(load_file(path).items())
    }
