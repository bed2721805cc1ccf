"""When a run ends otherwise than by its rounds: on request, for want of members, or because everybody has gone home.

Pure: (state, rules, now) in, a fact out, or None.
"""

from __future__ import annotations

from coordinator.decisions import quorum
from coordinator.decisions.continuous import is_continuous
from coordinator.decisions.facts import Ended, Fact, Finished
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Stage, State, Status


def next_fact(state: State, rules: Rules, now: float) -> Fact | None:
    """The end, or the end of the end, if it is due."""
    if state.stage.is_over:
        return _ended(state, rules, now)
    return _requested(state, rules, now) or _given_up(state, rules, now)


def waits_until(state: State, rules: Rules) -> list[float]:
    """Times of the run clock at which the verdicts of this file, or of the quorum, may change by themselves."""
    if state.stage.is_over:
        return [state.opened_at + rules.pace.linger_s]
    first = rules.members.enrolment_s if state.stage is Stage.ENROLLING else rules.pace.deadline_s
    return [state.opened_at + first, state.opened_at + first + rules.pace.give_up_s]


def _ended(state: State, rules: Rules, now: float) -> Ended | None:
    waiting = [member for member in state.active() if not member.said_goodbye]
    if state.ended or any(member.status is Status.PRESENT for member in waiting):
        return None
    if waiting and now < state.opened_at + rules.pace.linger_s:
        return None
    return Ended(absent=tuple(member.name for member in waiting))


def _requested(state: State, rules: Rules, now: float) -> Finished | None:
    if state.stops_asked > 1:
        return Finished(reason="aborted", sentence="stopped at once on repeated request")
    if not state.stops_asked:
        return None
    waiting = state.stage in (Stage.ENROLLING, Stage.MEASURING) or state.paused_at is not None
    if state.stage is Stage.TRAINING and not is_continuous(state, rules):
        verdict = quorum.round_closing(state, rules, now)
        waiting = waiting or (not verdict.ready and (verdict.late or verdict.stuck))
    if waiting or not state.active():
        return Finished(reason="requested", sentence=f"stopped on request while {state.stage}")
    return None


def _given_up(state: State, rules: Rules, now: float) -> Finished | None:
    if state.paused_at is not None or state.stage is Stage.AGGREGATING or _has_just_enrolled(state):
        return None
    verdict = waiting_for(state, rules, now)
    if verdict.ready:
        return None
    if verdict.hopeless and not _may_replace(state, rules):
        return Finished(reason="aborted", sentence=verdict.reason)
    patience = rules.members.enrolment_s if state.stage is Stage.ENROLLING else rules.pace.deadline_s
    if now >= state.opened_at + patience + rules.pace.give_up_s:
        return Finished(reason="aborted", sentence=f"given up: {verdict.reason}")
    return None


def _has_just_enrolled(state: State) -> bool:
    return state.enrolled and state.stage is Stage.ENROLLING


def waiting_for(state: State, rules: Rules, now: float) -> quorum.Verdict:
    """The verdict on whatever the run is waiting for, in words that a status command can print."""
    if state.stage is Stage.ENROLLING:
        return quorum.enrolment(state, rules, now)
    if state.stage is Stage.MEASURING:
        return quorum.measuring(state, rules, now)
    if is_continuous(state, rules):
        return quorum.silence(state, now)
    return quorum.round_closing(state, rules, now)


def _may_replace(state: State, rules: Rules) -> bool:
    """Whether somebody outside the open round may still enter it."""
    outside = [member for member in state.active() if member.name not in state.round_members]
    training = state.stage is Stage.TRAINING
    return training and any(state.is_ready(one, rules) or not one.has_answered(one.order) for one in outside)
