"""What an operator does when the coordinator refuses to start: `recover`, and the same command again.

Damage is done while the coordinator is dead; whether it then starts, refuses or is recovered is watched here. What
comes of it is the judge's.
"""

from __future__ import annotations

from coordinator.record.journal_check import OBSTACLE, read_journal
from scripts.drill.cast import Cast
from scripts.drill.damage import damage, is_damageable
from scripts.drill.faults import Damage
from scripts.drill.spec import COORDINATOR
from scripts.drill.stage import DrillSite

MOST_REFUSALS = 3
"""A coordinator that still refuses after so many recoveries has not been recovered."""


class Repair:
    """The damages of one drill. done: what was damaged and what followed, in order."""

    def __init__(self, cast: Cast, stage: DrillSite) -> None:
        self._cast = cast
        self._stage = stage
        self._pending: list[Damage] = []
        self._recovering: int | None = None
        self._accepts_older = False
        self.done: list[str] = []

    def strike(self, fault: Damage) -> bool:
        """Kill the coordinator and damage its folder; False where there is nothing to damage yet."""
        if not is_damageable(self._stage.home(COORDINATOR), fault):
            return False
        if self._cast.kill(COORDINATOR, pause_s=fault.pause_s):
            self._pending.append(fault)
        return True

    def look(self) -> None:
        """Damage what is dead, recover what refuses, start what is recovered."""
        party = self._cast.parties[COORDINATOR]
        if party.child is None and party.code is not None and self._pending:
            for fault in self._pending:
                what = damage(self._stage.home(COORDINATOR), fault)
                self.done.append(what or "nothing to damage")
                party.may_refuse = True
            self._pending = []
        elif self._recovering is not None:
            self._follow(self._recovering)
        elif party.child is None and party.code == 2 and party.may_refuse:
            self.done.append("refused to start")
            if self.done.count("refused to start") > MOST_REFUSALS:
                party.may_refuse = False
            else:
                self._recover()

    def _recover(self) -> None:
        settings = {"folder": str(self._stage.home(COORDINATOR)), "accept_older": self._accepts_older}
        self._recovering = self._cast.invite("recover", settings, name="recover")

    def _follow(self, child: int) -> None:
        code = self._cast.codes_of_others.get(child)
        if code is None:
            return
        self._recovering = None
        self.done.append(f"recover ended with code {code}")
        party = self._cast.parties[COORDINATOR]
        if code == 0:
            self._cast.start(COORDINATOR)
        elif code == 2 and not self._accepts_older:
            self._accepts_older = True
            self._recover()
        elif code == 2 and dict(read_journal(self._stage.home(COORDINATOR)).facts).get(OBSTACLE):
            self.done.append("the run was over before")  # whether members hold the right models is judged as always
            party.code = 0
        else:
            party.may_refuse = False
