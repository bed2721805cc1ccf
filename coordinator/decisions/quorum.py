"""Decides whether the run may continue (is enrolment complete, have statistics arrived, may the round close?), and says
what it waits for.

Pure functions of (state, rules, now). Every answer has a sentence with numbers that tells people why nothing happens.
What follows from a yes is decided elsewhere. Each check visits every member, so checking after every event would cost
n * n in a round of n members. Instead, the machine checks once, remembers whose reports must arrive before anything can
become due (`Awaited`), and until then handles reports one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from coordinator.decisions import events, facts
from coordinator.decisions.actions import Action, Persist, step_at
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from fedap_core.errors import shortened
from protocol.messages import REPORTS, Step

_WORDS = {"stats": "sets of statistics", "update": "updates"}

_names = partial(shortened, most=5)
"""Lists up to 5 names and counts the rest."""


_QUIET = (events.SignOfLife, events.Beat, events.StatsArrived, events.UpdateArrived, events.ReportDeclined)
"""Events that make nothing due unless they lead to a fact: a report counts only after its inspection."""

_REPORTS = (facts.StatsAccepted, facts.UpdateAccepted, facts.GoodbyeAccepted)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Whether to continue (`ready`), and the reason.

    stuck: not ready, and no present member will report. hopeless: nor can any absent member.
    late: the deadline is over.
    """

    ready: bool
    reason: str
    stuck: bool = False
    hopeless: bool = False
    late: bool = False


def enrolment(state: State, rules: Rules, now: float) -> Readiness:
    """May the first round start? With a list: all members that were not excluded are present. Otherwise, or later:
    enough are present and the enrolment window is over."""
    here = len(state.present())
    least, listed = rules.members.at_least, state.allowed
    waited = now - state.opened_at
    if listed is not None:
        names = {name for _, name in listed}
        excluded = sorted(one.name for one in state.members.values() if one.is_barred and one.name in names)
        missing = sorted(names - set(excluded) - {member.name for member in state.present()})
        without = f" ({_names(excluded)} excluded)" if excluded else ""
        if not missing and here >= least:
            return Readiness(ready=True, reason=f"all {here} listed members are present{without}")
        if excluded and len(names) - len(excluded) < least:
            reason = f"{len(names) - len(excluded)} of at least {least} members can join: {_names(excluded)} excluded"
            return Readiness(ready=False, hopeless=True, reason=reason)
    if here < least:
        return Readiness(ready=False, reason=f"{here} of at least {least} members are present after {_s(waited)}")
    if now >= state.opened_at + rules.members.enrolment_s:
        return Readiness(ready=True, reason=f"{here} members are present, enrolment was open for {_s(waited)}")
    left = rules.members.enrolment_s - waited
    waits_for = f", {_names(missing)} missing" if listed is not None else ""
    if math.isinf(left):
        return Readiness(
            ready=False, reason=f"{here} members are present{waits_for}, the run starts when all are present"
        )
    return Readiness(
        ready=False, reason=f"{here} members are present{waits_for}, enrolment is open for another {_s(left)}"
    )


def measuring(state: State, rules: Rules, now: float) -> Readiness:
    """May training start? All present members were admitted or refused, or the deadline is over and enough measured."""
    members = state.active()
    got = sum(state.has_measured(member, rules) for member in members)
    settled = step_at("stats", state.round_no)
    return _judge(state, rules, now, members=members, got=got, settled=settled)


def round_closing(state: State, rules: Rules, now: float) -> Readiness:
    """May the open round be mixed? All present members have reported, or the deadline is over with a quorum."""
    members = [state.members[name] for name in state.round_members if state.members[name].is_active]
    settled = step_at("update", state.round_no)
    return _judge(state, rules, now, members=members, got=len(reported(state)), settled=settled)


def reported(state: State) -> tuple[str, ...]:
    """Return the members of the open round whose update for it was admitted."""
    return tuple(
        name
        for name in state.round_members
        if state.members[name].is_active and state.members[name].update_round == state.round_no
    )


def _judge(state: State, rules: Rules, now: float, *, members: list[Member], got: int, settled: Step) -> Readiness:
    """Apply quorum and deadline. got: admitted reports. settled: the report after which, admitted or refused, a member
    is no longer waited for."""
    quorum, waited = rules.pace.quorum, now - state.opened_at
    waiting = [one for one in members if one.answered is None or one.answered.place < settled.place]
    awaited = [one.name for one in waiting if one.status is Status.PRESENT and not one.is_stalled]
    lost = [one.name for one in waiting if one.status is Status.LOST]
    stalled = [one.name for one in waiting if one.status is Status.PRESENT and one.is_stalled]
    late = now >= state.opened_at + rules.pace.longest_wait_s
    counted = f"{got} {_WORDS[settled.kind]} from {len(members)} members after {_s(waited)}, quorum {quorum}"
    if got >= quorum and not awaited:
        absent = f"; {_names(lost)} absent" if lost else ""
        absent += f"; not waiting for {_names(stalled)}, which did not report before" if stalled else ""
        return Readiness(ready=True, late=late, reason=f"{counted}: all present members have answered{absent}")
    if got >= quorum and late:
        return Readiness(
            ready=True,
            late=True,
            reason=f"{counted}: the deadline has passed; without {_names(awaited + stalled + lost)}",
        )
    if not waiting:
        reason = f"{counted}: no members are left to answer"
        return Readiness(ready=False, stuck=True, hopeless=not _may_return(state), late=late, reason=reason)
    left = state.opened_at + rules.pace.longest_wait_s - now
    until = "" if math.isinf(left) else f", deadline in {_s(left)}" if left > 0 else ", deadline passed"
    reason = f"{counted}: waiting for {_names(awaited + stalled + lost)}{until}"
    return Readiness(ready=False, stuck=not awaited, late=late, reason=reason)


def farewell(state: State, rules: Rules, now: float) -> Readiness:
    """May a finished run end? All members have their last model, or the time to fetch it is over."""
    waiting = [member for member in state.active() if not member.said_goodbye]
    here = [one.name for one in waiting if one.status is Status.PRESENT and not one.is_stalled]
    away = [one.name for one in waiting if one.status is not Status.PRESENT or one.is_stalled]
    left = state.opened_at + (rules.pace.longest_goodbye_s if here else rules.pace.linger_s) - now
    if not waiting or left <= 0:
        return Readiness(ready=True, reason=f"{_names(away)} did not fetch the last model" if waiting else "")
    who = " and ".join(filter(None, (_names(here) if here else "", f"{_names(away)} (absent)" if away else "")))
    until = "" if math.isinf(left) else f", for at most another {_s(left)}"
    return Readiness(ready=False, stuck=not here, reason=f"waiting for {who} to fetch the last model{until}")


def silence(state: State, now: float) -> Readiness:
    """Return why a run without barriers makes no progress. It never closes a round, so this is never ready."""
    hopeless = not state.active() and not _may_return(state)
    here, waited = len(state.present()), now - state.opened_at
    reason = f"{state.accepted} updates, {here} members present, none has reported for {_s(waited)}"
    return Readiness(ready=False, hopeless=hopeless, reason=reason)


def _may_return(state: State) -> bool:
    """Whether somebody who is gone may come back: a member that left, or that the list may name again."""
    return any(member.status in (Status.LEFT, Status.REMOVED) for member in state.members.values())


def _s(seconds: float) -> str:
    """Format seconds with the unit that keeps the text short."""
    if seconds < 600.0:
        return f"{seconds:.3g} s"
    return f"{seconds / 60.0:.3g} min" if seconds < 10_000.0 else f"{seconds / 3600.0:.3g} h"


@dataclass(kw_only=True)
class Awaited:
    """The reports that the run waits for. place: of these reports; members: their senders; until: the deadline, after
    which any report may complete a quorum; entering: number of further members that the first round needs;
    closed_until: the earliest time at which the first round can start. freed: a member is no longer at work and may be
    sent its next order."""

    place: tuple[int, int] = (0, 0)
    members: set[str] = field(default_factory=set)
    until: float = -math.inf
    entering: int = 0
    closed_until: float = -math.inf
    freed: bool = False

    @staticmethod
    def after(state: State, rules: Rules, *, alone: bool) -> Awaited:
        """Return what the run waits for once all that is due is done. alone: `answers_individually` of the round."""
        if state.began_at is None or state.ended or state.paused_at is not None or state.stops_asked:
            return Awaited()
        if state.is_enrolling:
            if state.enrolled:
                return Awaited()
            listed = state.allowed is not None  # then the first round starts when the last listed member joins
            closed_until = -math.inf if listed else state.opened_at + rules.members.enrolment_s
            return Awaited(entering=rules.members.at_least - len(state.present()), closed_until=closed_until)
        if state.stage.is_over:
            silent = {one.name for one in state.present() if not one.said_goodbye}
            return Awaited(place=(-1, REPORTS.index("goodbye")), members=silent, until=math.inf)
        deadline = state.opened_at + rules.pace.longest_wait_s
        if state.is_measuring:
            place = (state.round_no, REPORTS.index("stats"))
            return Awaited(place=place, members=_silent(state.present(), place), until=deadline)
        if not state.is_training or alone:
            return Awaited()
        if any(one.answer_due or one.waits_individually for one in state.active()):
            return Awaited()  # a member waits for a separate mix: any update may make it possible
        place = (state.round_no, REPORTS.index("update"))
        members = [state.members[name] for name in state.round_members]
        return Awaited(place=place, members=_silent(members, place), until=deadline)

    def absorbs(self, event: events.Event, actions: Sequence[Action], now: float) -> bool:
        """Whether this event makes nothing due beyond the actions already returned for it."""
        persisted = [action.fact for action in actions if isinstance(action, Persist)]
        if not persisted:
            return isinstance(event, _QUIET) and not self.freed
        if len(persisted) > 1 or now >= self.until:
            return self._enters(persisted, now)
        fact = persisted[0]
        if not isinstance(fact, _REPORTS) or fact.member not in self.members or not self._is_awaited(fact):
            return self._enters(persisted, now)
        self.members.discard(fact.member)
        return bool(self.members)

    def _is_awaited(self, fact: facts.StatsAccepted | facts.UpdateAccepted | facts.GoodbyeAccepted) -> bool:
        round_no, kind = self.place
        return isinstance(fact, _REPORTS[kind]) and round_no in (fact.round_no, -1)

    def _enters(self, persisted: Sequence[facts.Fact], now: float) -> bool:
        if len(persisted) != 1 or not isinstance(persisted[0], facts.Joined):
            return False
        self.entering -= 1
        return self.entering > 0 or now < self.closed_until


def _silent(members: Sequence[Member], place: tuple[int, int]) -> set[str]:
    """Return the present members that are waited for and have not reported up to this place."""
    here = [one for one in members if one.status is Status.PRESENT and not one.is_stalled]
    return {one.name for one in here if one.answered is None or one.answered.place < place}
