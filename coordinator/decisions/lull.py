"""Which events call for nothing while others are still awaited: above all a report that counts and is not the last.

To ask after every event what follows from it means to look at every member; in a round of n members that would be n
times n. So the machine asks once, remembers whose reports must come before anything can follow, and until then takes
reports one by one. Pure: what holds is read from the state; what is due by time alone is for the next Tick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.decisions import events, facts
from coordinator.decisions.actions import Action, Persist
from coordinator.decisions.modes import Mode
from coordinator.decisions.state import Member, State, Status
from protocol.messages import REPORTS

_QUIET = (events.Heard, events.Beat, events.StatsArrived, events.UpdateArrived, events.ReportDeclined)
"""Events after which nothing has changed, unless a fact says so: a report counts when it was judged."""

_REPORTS = (facts.StatsAccepted, facts.UpdateAccepted, facts.GoodbyeAccepted)


@dataclass(kw_only=True)
class Lull:
    """What is waited for. place: of the awaited reports; awaited: whose; until: the deadline, after which any report
    may complete a quorum; entering: further members without whom the first round cannot begin; closed_until:
    when it can begin at the earliest, whoever enters. freed: somebody who was
    at work is not any more, and may be told its next order."""

    place: tuple[int, int] = (0, 0)
    awaited: set[str] = field(default_factory=set)
    until: float = -math.inf
    entering: int = 0
    closed_until: float = -math.inf
    freed: bool = False

    @staticmethod
    def after(state: State, mode: Mode) -> Lull:
        """What is waited for when everything that was due is done."""
        rules = mode.rules
        if state.began_at is None or state.ended or state.paused_at is not None or state.stops_asked:
            return Lull()
        if state.is_enrolling:
            if state.enrolled:
                return Lull()
            listed = state.allowed is not None  # then the first round begins with the last of them
            closed_until = -math.inf if listed else state.opened_at + rules.members.enrolment_s
            return Lull(entering=rules.members.at_least - len(state.present()), closed_until=closed_until)
        if state.stage.is_over:
            awaited = {one.name for one in state.present() if not one.said_goodbye}
            return Lull(place=(-1, REPORTS.index("goodbye")), awaited=awaited, until=math.inf)
        deadline = state.opened_at + rules.pace.deadline_s
        if state.is_measuring:
            place = (state.round_no, REPORTS.index("stats"))
            return Lull(place=place, awaited=_silent(state.present(), place), until=deadline)
        if not state.is_training or mode.answers_alone(state.round_no):
            return Lull()
        if any(one.answer_due or one.waits_alone for one in state.active()):
            return Lull()  # somebody waits for a mix of its own: any update may make it possible
        place = (state.round_no, REPORTS.index("update"))
        members = [state.members[name] for name in state.round_members]
        return Lull(place=place, awaited=_silent(members, place), until=deadline)

    def holds(self, event: events.Event, actions: Sequence[Action], now: float) -> bool:
        """Whether nothing follows from this event beyond the actions that it called for by itself."""
        told = [action.fact for action in actions if isinstance(action, Persist)]
        if not told:
            return isinstance(event, _QUIET) and not self.freed
        if len(told) > 1 or now >= self.until:
            return self._enters(told, now)
        fact = told[0]
        if not isinstance(fact, _REPORTS) or fact.member not in self.awaited or not self._is_awaited(fact):
            return self._enters(told, now)
        self.awaited.discard(fact.member)
        return bool(self.awaited)

    def _is_awaited(self, fact: facts.StatsAccepted | facts.UpdateAccepted | facts.GoodbyeAccepted) -> bool:
        round_no, kind = self.place
        return isinstance(fact, _REPORTS[kind]) and round_no in (fact.round_no, -1)

    def _enters(self, told: Sequence[facts.Fact], now: float) -> bool:
        if len(told) != 1 or not isinstance(told[0], facts.Joined):
            return False
        self.entering -= 1
        return self.entering > 0 or now < self.closed_until


def _silent(members: Sequence[Member], place: tuple[int, int]) -> set[str]:
    """Who is there and has not reported that far."""
    return {
        one.name
        for one in members
        if one.status is Status.PRESENT and (one.answered is None or one.answered.place < place)
    }
