"""Whether it is time to go on: is enrolment complete, are the statistics in, may the round close?

Pure questions of (state, rules, now). Every answer is a sentence with numbers, so that a person who asks why nothing
happens is told. What follows from a yes is decided elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coordinator.decisions.actions import step_at
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from protocol.messages import Step

_WORDS = {"stats": "sets of statistics", "update": "updates"}

_SHOWN_NAMES = 5
"""Names beyond this many are counted, not listed."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """ready: go on. reason: why, or why not.

    stuck: not ready, and nobody who is there will answer. hopeless: nobody who could come back would, either.
    late: the deadline is over.
    """

    ready: bool
    reason: str
    stuck: bool = False
    hopeless: bool = False
    late: bool = False


def enrolment(state: State, rules: Rules, now: float) -> Verdict:
    """May the first round start? With a list: all are there who were not excluded. Otherwise, or later: enough, and the
    window is over."""
    here = len(state.present())
    least, listed = rules.members.at_least, state.allowed
    waited = now - state.opened_at
    if listed is not None:
        names = {name for _, name in listed}
        excluded = sorted(one.name for one in state.members.values() if one.is_barred and one.name in names)
        missing = sorted(names - set(excluded) - {member.name for member in state.present()})
        without = f" ({_names(excluded)} excluded)" if excluded else ""
        if not missing and here >= least:
            return Verdict(ready=True, reason=f"all {here} listed members are there{without}")
        if excluded and len(names) - len(excluded) < least:
            reason = f"{len(names) - len(excluded)} of at least {least} members can come: {_names(excluded)} excluded"
            return Verdict(ready=False, hopeless=True, reason=reason)
    if here < least:
        return Verdict(ready=False, reason=f"{here} of at least {least} members are there after {_s(waited)}")
    if now >= state.opened_at + rules.members.enrolment_s:
        return Verdict(ready=True, reason=f"{here} members are there, enrolment was open for {_s(waited)}")
    left = rules.members.enrolment_s - waited
    waits_for = f", {_names(missing)} missing" if listed is not None else ""
    return Verdict(ready=False, reason=f"{here} members are there{waits_for}, enrolment is open for another {_s(left)}")


def measuring(state: State, rules: Rules, now: float) -> Verdict:
    """May training start? All who are there have been judged, or the deadline is over and enough are measured."""
    members = state.active()
    got = sum(state.has_measured(member, rules) for member in members)
    settled = step_at("stats", state.round_no)
    return _judge(state, rules, now, members=members, got=got, settled=settled)


def round_closing(state: State, rules: Rules, now: float) -> Verdict:
    """May the open round be mixed? Everyone who is there has reported, or the deadline is over and the quorum is in."""
    members = [state.members[name] for name in state.round_members if state.members[name].is_active]
    settled = step_at("update", state.round_no)
    return _judge(state, rules, now, members=members, got=len(reported(state)), settled=settled)


def reported(state: State) -> tuple[str, ...]:
    """Members of the open round whose update for it was admitted."""
    return tuple(
        name
        for name in state.round_members
        if state.members[name].is_active and state.members[name].update_round == state.round_no
    )


def _judge(state: State, rules: Rules, now: float, *, members: list[Member], got: int, settled: Step) -> Verdict:
    """settled: the report with which a member, admitted or refused, has done its part."""
    quorum, waited = rules.pace.quorum, now - state.opened_at
    waiting = [one for one in members if one.answered is None or one.answered.place < settled.place]
    awaited = [one.name for one in waiting if one.status is Status.PRESENT]
    lost = [one.name for one in waiting if one.status is Status.LOST]
    late = now >= state.opened_at + rules.pace.deadline_s
    counted = f"{got} {_WORDS[settled.kind]} from {len(members)} members after {_s(waited)}, quorum {quorum}"
    if got >= quorum and not awaited:
        absent = f"; {_names(lost)} not there" if lost else ""
        return Verdict(ready=True, late=late, reason=f"{counted}: everyone who is there has answered{absent}")
    if got >= quorum and late:
        return Verdict(
            ready=True, late=True, reason=f"{counted}: the deadline is over; without {_names(awaited + lost)}"
        )
    if not waiting:
        reason = f"{counted}: nobody is left to answer"
        return Verdict(ready=False, stuck=True, hopeless=not _has_leavers(state), late=late, reason=reason)
    left = state.opened_at + rules.pace.deadline_s - now
    until = "" if math.isinf(left) else f", deadline in {_s(left)}" if left > 0 else ", deadline over"
    reason = f"{counted}: waiting for {_names(awaited + lost)}{until}"
    return Verdict(ready=False, stuck=not awaited, late=late, reason=reason)


def silence(state: State, now: float) -> Verdict:
    """Why a run without barriers does not go on. It never closes a round, so this is never ready."""
    hopeless = not state.active() and not _has_leavers(state)
    here, waited = len(state.present()), now - state.opened_at
    reason = f"{state.accepted} updates, {here} members there, none reported for {_s(waited)}"
    return Verdict(ready=False, hopeless=hopeless, reason=reason)


def _has_leavers(state: State) -> bool:
    return any(member.status is Status.LEFT for member in state.members.values())


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES]) or "nobody"
    return shown + (f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else "")


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s"
