"""Acts as the operator when a party refuses to start: `recover` for a coordinator, joining again for a participant.

Damage is done while the party is down; this module then tracks whether it starts, refuses or is repaired. `judge`
decides about the result.
"""

from __future__ import annotations

from coordinator.record.journal_check import OBSTACLE, read_journal
from scripts.drill.damage import damage, is_damageable
from scripts.drill.drill_processes import DrillProcesses, Party
from scripts.drill.faults import Damage
from scripts.drill.site import RUN, DrillSite
from scripts.drill.spec import COORDINATOR
from scripts.drill.watch import last_line

MOST_REFUSALS = 3
"""A party that still refuses after this many repairs counts as failed."""


class Repair:
    """All damage of one drill. done: what was damaged and what followed, in order."""

    def __init__(self, processes: DrillProcesses, site: DrillSite) -> None:
        self._processes = processes
        self._site = site
        self._pending: list[Damage] = []
        self._recovering: int | None = None
        self._accepts_older = False
        self.done: list[str] = []
        self.lost_state = False
        """Whether a participant had to start over."""

    def strike(self, fault: Damage) -> bool:
        """Kill the party and schedule damage of its folder; False if there is nothing to damage yet."""
        if not is_damageable(self._site.home(fault.party), fault):
            return False
        if self._processes.kill(fault.party, pause_s=fault.pause_s):
            self._pending.append(fault)
        return True

    def check(self) -> None:
        """Damage folders of dead parties, repair parties that refuse, start repaired ones."""
        for fault in list(self._pending):
            party = self._processes.parties[fault.party]
            if party.child is None and party.code is not None:
                self._pending.remove(fault)
                self.done.append(damage(self._site.home(fault.party), fault) or "nothing to damage")
                party.may_refuse = True
        if self._recovering is not None:
            self._follow(self._recovering)
            return
        for party in self._processes.parties.values():
            if party.child is None and party.code == 2 and party.may_refuse:
                self._repair(party)

    def _repair(self, party: Party) -> None:
        self.done.append("refused to start")
        if self.done.count("refused to start") > MOST_REFUSALS:
            party.may_refuse = False
        elif party.name == COORDINATOR:
            self._recover()
        else:
            self._begin_anew(party)

    def _begin_anew(self, party: Party) -> None:
        """Follow the participant's own advice: move its state of the run aside, keep the folder, join again."""
        if "join again" not in last_line(self._site.log(party.name)):
            party.may_refuse = False  # its message did not say what to do
            return
        folder = self._site.home(party.name) / "state" / RUN
        folder.rename(folder.with_name(f"damaged-{len(self.done)}"))
        self.lost_state = True
        self._processes.start(party.name)

    def _recover(self) -> None:
        settings = {"folder": str(self._site.home(COORDINATOR)), "accept_older": self._accepts_older}
        self._recovering = self._processes.invite("recover", settings, name="recover")

    def _follow(self, child: int) -> None:
        code = self._processes.codes_of_others.get(child)
        if code is None:
            return
        self._recovering = None
        self.done.append(f"recover ended with code {code}")
        party = self._processes.parties[COORDINATOR]
        if code == 0:
            self._processes.start(COORDINATOR)
        elif code == 2 and not self._accepts_older:
            self._accepts_older = True
            self._recover()
        elif code == 2 and dict(read_journal(self._site.home(COORDINATOR)).facts).get(OBSTACLE):
            self.done.append("the run was over before")  # the members' models are judged as always
            party.code = 0
        else:
            party.may_refuse = False
