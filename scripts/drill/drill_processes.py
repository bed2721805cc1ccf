"""Manages the processes of one drill: which are running, which are to be restarted, and how each ended.

They are started, killed and frozen here; the caller decides when. A party that ends by itself with code 0 has done its
part; one that ends otherwise without having been killed by the drill has failed.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.drill.faults import Die
from scripts.drill.fork_server import ForkServer
from scripts.drill.site import DrillSite
from scripts.drill.spec import COORDINATOR, PARTIES


@dataclass
class Party:
    """One participant or the coordinator, across restarts."""

    name: str
    child: int | None = None
    code: int | None = None
    starts: int = 0
    is_killed: bool = False
    """The drill has killed this process, or told it to kill itself."""
    deaths: deque[Die] = field(default_factory=deque)
    may_refuse: bool = False
    """It may end with code 2, because a file that it needs was damaged."""
    lacked_room: bool = False
    """It may end with code 2 once, because its disk was full before the run had begun; it is started again when there
    is room."""
    pause_s: float = 0.0
    """Pause between the kill of this process and the next start."""


class DrillProcesses:
    """All processes. endpoints: where each member finds the coordinator; namespaces: each party's own, if any."""

    def __init__(
        self,
        fork_server: ForkServer,
        site: DrillSite,
        endpoints: Mapping[str, str],
        *,
        namespaces: Mapping[str, str],
        pace_s: float,
    ) -> None:
        self._fork_server = fork_server
        self._site = site
        self._endpoints = endpoints
        self._namespaces = namespaces
        self._pace_s = pace_s
        self._others: list[int] = []
        self.codes_of_others: dict[int, int] = {}
        """Exit codes of processes that are no parties, by number."""
        self.parties = {name: Party(name) for name in PARTIES}
        self.injected = 0

    def schedule_death(self, death: Die) -> None:
        self.parties[death.party].deaths.append(death)

    def start(self, name: str) -> None:
        """Start a party, for the first time or again."""
        party = self.parties[name]
        party.starts += 1
        party.code, party.is_killed, party.pause_s = None, False, 0.0
        settings: dict[str, object] = {}
        if party.deaths:
            death = party.deaths.popleft()
            settings |= {"step": death.step, "when": death.when}
            party.is_killed, party.pause_s = True, death.pause_s
        if name == COORDINATOR:
            settings |= {"config": str(self._site.config), "folder": str(self._site.home(name))}
        else:
            settings["join"] = self._site.join_settings(name, self._endpoints[name])
            settings["pace_s"] = self._pace_s
        party.child = self._fork_server.start(
            "coordinate" if name == COORDINATOR else "take part",
            settings,
            log=self._site.log(name),
            namespace=self._namespaces.get(name),
        )

    def kill(self, name: str, *, pause_s: float) -> bool:
        """Send SIGKILL; False if the party has already ended."""
        party = self.parties[name]
        if party.child is None or not self._fork_server.signal(party.child, signal.SIGKILL):
            return False
        party.is_killed, party.pause_s = True, pause_s
        return True

    def send(self, name: str, which: signal.Signals) -> bool:
        party = self.parties[name]
        return party.child is not None and self._fork_server.signal(party.child, which)

    def collect_killed(self, timeout_s: float) -> list[Party]:
        """Return the parties killed by the drill since the last call, which are to be restarted."""
        dead = []
        for ended in self._fork_server.ended(timeout_s):
            party = next((one for one in self.parties.values() if one.child == ended.child), None)
            if party is None:
                self.codes_of_others[ended.child] = ended.code
                continue
            party.child, party.code = None, ended.code
            if ended.code == -signal.SIGKILL and party.is_killed:
                self.injected += 1
                dead.append(party)
        return dead

    def invite(self, work: str, settings: Mapping[str, object], *, name: str) -> int:
        """Start a process that is no party, which lives at most until `end`; return its number."""
        self._others.append(self._fork_server.start(work, settings, log=self._site.log(name)))
        return self._others[-1]

    def end(self) -> None:
        """Kill all remaining processes and wait until they are gone."""
        everybody = [*(one.child for one in self.parties.values()), *self._others]
        while living := [child for child in everybody if child in self._fork_server.pids]:
            for child in living:
                if child is not None:
                    self._fork_server.signal(child, signal.SIGKILL)
            for _ in self._fork_server.ended(1.0):
                continue

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running parties."""
        known = self._fork_server.pids
        return {one.name: known[one.child] for one in self.parties.values() if one.child in known}

    @property
    def failed(self) -> list[str]:
        """Parties that ended unexpectedly."""
        return [
            one.name
            for one in self.parties.values()
            if one.child is None and one.code not in (None, 0) and not _is_expected(one)
        ]

    @property
    def is_over(self) -> bool:
        return all(one.child is None and one.code == 0 for one in self.parties.values())


def _is_expected(party: Party) -> bool:
    """Whether the drill killed the party, damaged what it refuses, or filled the disk on which it refuses to start."""
    is_refusal = party.code == 2 and (party.may_refuse or party.lacked_room)
    return (party.code == -signal.SIGKILL and party.is_killed) or is_refusal
