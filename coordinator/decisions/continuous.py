"""What happens next where nobody waits for anybody: each report is answered at once by a mix with the latest of the
others, until as many updates have come as all rounds of all members together.

Pure: (state, rules) in, a fact out, or None. Enrolment, measuring and warm-up are `barrier`'s here, too.
"""

from __future__ import annotations

from coordinator.decisions import mixing_plan
from coordinator.decisions.barrier import blocked, converged, has_converged
from coordinator.decisions.facts import Fact, Finished, RoundClosed, RowPlanned
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, Stage, State, Status
from fedap_core.strategies import Phase


def is_continuous(state: State, rules: Rules) -> bool:
    """Whether the run is past its warm-up and measuring, and rounds have no barrier."""
    past = state.stage in (Stage.TRAINING, Stage.AGGREGATING) and state.round_no >= rules.warmup_rounds
    return rules.continuous and past


def is_complete(state: State, rules: Rules) -> bool:
    """Whether the run has all the updates it will mix: a further one would be counted and never used."""
    if not is_continuous(state, rules):
        return False
    return state.stage is Stage.AGGREGATING or _is_done(state, rules)


def next_fact(state: State, rules: Rules, *, mixed: bool) -> Fact | None:
    """mixed: the last rows are made."""
    if state.stage is Stage.AGGREGATING:
        return _finish(state, rules) if mixed else None
    if _is_done(state, rules):
        return _close(state, rules)
    for member in state.active():
        if member.answer_due and member.status is Status.PRESENT and not blocked(state, rules, _phase(rules, member)):
            round_no = max(mixing_plan.next_round(member), rules.warmup_rounds)
            return RowPlanned(member=member.name, round_no=round_no)
    return None


def _phase(rules: Rules, member: Member) -> Phase:
    return rules.round_plan(member.update_round or rules.warmup_rounds).phase


def _is_done(state: State, rules: Rules) -> bool:
    goal = rules.rounds * len(state.active())
    return bool(state.active()) and (state.accepted >= goal or state.stops_asked > 0 or has_converged(state, rules))


def _close(state: State, rules: Rules) -> Fact | None:
    if state.lacks_weights(rules):
        return None
    if not any(mixing_plan.can_mix(state, rules, member) for member in state.ready(rules)):
        return _finish(state, rules)
    members = tuple(member.name for member in state.active() if member.update_round is not None)
    reason = f"{state.accepted} updates from {len(state.active())} members, {rules.rounds} rounds each"
    return RoundClosed(round_no=state.round_no, reason=reason, reported=members, missing=())


def _finish(state: State, rules: Rules) -> Finished:
    if state.stops_asked:
        return Finished(reason="requested", sentence=f"stopped on request after {state.accepted} updates")
    if state.accepted < rules.rounds * len(state.active()) and has_converged(state, rules):
        return converged(state, rules)
    return Finished(reason="rounds", sentence=f"{state.accepted} updates were admitted, {rules.rounds} per member")
