"""What happens next where rounds wait for everyone: which fact, if any, has become true by now.

Pure: (state, rules, now) and two things only this process knows, in; a fact out, or None: nothing is due. Also decides
the way through enrolment, measuring and warm-up, which is the same for runs without barriers.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.decisions import mixing_plan, quorum
from coordinator.decisions.facts import (
    EnrolmentClosed,
    Fact,
    Finished,
    MeasuringOpened,
    RoundClosed,
    RoundOpened,
    RowPlanned,
)
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, Stage, State, Status
from fedap_core.strategies import Measure, Phase


def next_fact(state: State, rules: Rules, now: float, *, mixed: bool, told: Callable[[Member], bool]) -> Fact | None:
    """mixed: the rows of the closed round are made. told: the member has its present order already."""
    if state.stage is Stage.ENROLLING:
        return _enrol(state, rules, now)
    if state.stage is Stage.MEASURING:
        verdict = quorum.measuring(state, rules, now)
        return _open(state, rules, state.round_no) if verdict.ready else None
    if state.stage is Stage.TRAINING:
        return _answer_latecomer(state, rules, told) or _close(state, rules, now)
    if state.stage is Stage.AGGREGATING and mixed and not state.awaits_measure(rules):
        return _after_mixing(state, rules)
    return None


def wants_weights(state: State, rules: Rules, now: float) -> bool:
    """Whether W should be computed (again) now.

    Statistics measured before training change with membership only: as soon as possible. Running statistics come in
    one by one with the updates of a round: once they are needed.
    """
    if not state.lacks_weights(rules) or state.stage is not Stage.TRAINING or state.awaits_measure(rules):
        return False
    if rules.continuous or rules.strategy.first_measure is not Measure.NONE:
        return state.round_no >= rules.warmup_rounds
    due = any(member.answer_due or waits_alone(member) for member in state.active())
    return due or quorum.round_closing(state, rules, now).ready


def waits_alone(member: Member) -> bool:
    """Whether a mix of its own was promised to a member that has not answered it: a crash may have lost that mix."""
    row = member.order.weights.row if member.order is not None and member.order.weights is not None else None
    return row is not None and row.alone and not member.has_answered(member.order)


def blocked(state: State, rules: Rules, phase: Phase) -> bool:
    """Whether nothing can be mixed in this phase before W is known."""
    return phase is Phase.MIXED and (state.lacks_weights(rules) or state.awaits_measure(rules))


def has_converged(state: State, rules: Rules) -> bool:
    """No evaluation of the last `patience` ones was better than all before them."""
    patience = rules.pace.patience
    if patience is None or len(state.accuracies) <= patience:
        return False
    return max(state.accuracies[:-patience]) >= max(state.accuracies[-patience:])


def converged(state: State, rules: Rules) -> Finished:
    """The end that `has_converged` leads to."""
    best, patience = max(state.accuracies), rules.pace.patience
    return Finished(reason="converged", sentence=f"validation accuracy {best:.4f} not surpassed {patience} times")


def _enrol(state: State, rules: Rules, now: float) -> Fact | None:
    if not state.enrolled:
        verdict = quorum.enrolment(state, rules, now)
        members = tuple(member.name for member in state.active())
        return EnrolmentClosed(members=members, reason=verdict.reason) if verdict.ready else None
    if rules.asks_first and not rules.warmup_rounds:
        return MeasuringOpened(round_no=0)
    return _open(state, rules, 0)


def _open(state: State, rules: Rules, round_no: int) -> RoundOpened:
    return RoundOpened(round_no=round_no, members=tuple(member.name for member in state.ready(rules)))


def _answer_latecomer(state: State, rules: Rules, told: Callable[[Member], bool]) -> RowPlanned | None:
    """Who reported after its round was closed gets at once a mix with the others as they are, and the open round."""
    before = rules.round_plan(max(state.round_no - 1, 0)).phase
    if state.round_no == rules.warmup_rounds or blocked(state, rules, before):
        return None  # the first round has no round before it to mix
    for name in state.round_members:
        member = state.members[name]
        due = member.answer_due and member.status is Status.PRESENT and not member.has_answered(member.order)
        if due and not told(member) and mixing_plan.can_mix(state, rules, member):
            return RowPlanned(member=name, round_no=state.round_no)
    return None


def _close(state: State, rules: Rules, now: float) -> Fact | None:
    verdict = quorum.round_closing(state, rules, now)
    if verdict.ready:
        if blocked(state, rules, rules.round_plan(state.round_no).phase):
            return None
        reported = quorum.reported(state)
        known = frozenset(reported)
        missing = tuple(n for n in state.round_members if n not in known and state.members[n].is_active)
        return RoundClosed(round_no=state.round_no, reason=verdict.reason, reported=reported, missing=missing)
    if not verdict.stuck:
        return None
    waiting = [member for member in state.ready(rules) if member.name not in state.round_members]
    if waiting:  # without newcomers this round would never close
        names = {name for name in state.round_members if state.members[name].is_active}
        members = tuple(sorted(names | {member.name for member in waiting}))
        return RoundOpened(round_no=state.round_no, members=members)
    return None


def _after_mixing(state: State, rules: Rules) -> Fact:
    following = state.round_no + 1
    if state.stops_asked:
        return Finished(reason="requested", sentence=f"stopped on request after {following} rounds")
    if following >= rules.rounds:
        return Finished(reason="rounds", sentence=f"all {rules.rounds} rounds are done")
    if has_converged(state, rules):
        return converged(state, rules)
    if following == rules.warmup_rounds:
        return MeasuringOpened(round_no=following)
    return _open(state, rules, following)
