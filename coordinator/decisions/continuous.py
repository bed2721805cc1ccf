"""Continuous mode: each report is answered at once with a mix of all members' latest updates, until rounds x members
updates have been admitted.

Pure: takes the state, returns a fact or None. Enrolment, measuring and warm-up are inherited from `Barrier`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinator.decisions import mixing_plan, quorum
from coordinator.decisions.facts import Fact, Finished, RoundClosed, RowPlanned
from coordinator.decisions.modes import Barrier, Mode
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from fedap_core.arrays import FloatArray
from fedap_core.strategies import Phase


def mode_of(rules: Rules) -> Mode:
    """Return the mode of a run. The only place that reads `rules.continuous`."""
    return Continuous(rules) if rules.continuous else Barrier(rules)


class Continuous(Barrier):
    """After warm-up and measuring, no member waits for another."""

    age_to_self = True

    def answers_individually(self, round_no: int) -> bool:
        return round_no >= self.rules.warmup_rounds

    def is_complete(self, state: State) -> bool:
        return self._has_begun(state) and (state.is_mixing or self._is_done(state))

    def next_fact(self, state: State, now: float, *, mixed: bool, was_sent: Callable[[Member], bool]) -> Fact | None:
        if not self._has_begun(state):
            return super().next_fact(state, now, mixed=mixed, was_sent=was_sent)
        if state.is_mixing:
            return self._finish(state) if mixed else None
        if self._is_done(state):
            return self._close_run(state)
        for member in state.active():
            phase = self.rules.round_plan(member.update_round or self.rules.warmup_rounds).phase
            if member.answer_due and member.status is Status.PRESENT and not self.blocked(state, phase):
                round_no = max(mixing_plan.next_round(member), self.rules.warmup_rounds)
                return RowPlanned(member=member.name, round_no=round_no)
        return None

    def waiting_for(self, state: State, now: float) -> quorum.Readiness:
        return quorum.silence(state, now) if self._has_begun(state) else super().waiting_for(state, now)

    def wants_weights(self, state: State, now: float) -> bool:
        """As soon as possible, because every report is mixed separately."""
        del now
        lacking = state.lacks_weights(self.rules) and not state.awaits_measure(self.rules)
        return lacking and state.is_training and self.answers_individually(state.round_no)

    def ages(self, state: State, members: Sequence[Member]) -> FloatArray:
        """Return (n,): updates admitted from others since each member's latest, divided by the number of others."""
        return mixing_plan.counted_ages(state, members)

    def row_phase(self, state: State, member: Member) -> Phase:
        done = member.update_round if member.update_round is not None else state.round_no
        return self.rules.round_plan(done).phase

    def _has_begun(self, state: State) -> bool:
        return state.in_rounds and self.answers_individually(state.round_no)

    def _is_done(self, state: State) -> bool:
        goal = self.rules.rounds * len(state.active())
        return bool(state.active()) and (state.accepted >= goal or state.stops_asked > 0 or self.has_converged(state))

    def _close_run(self, state: State) -> Fact | None:
        if state.lacks_weights(self.rules):
            return None
        if not any(mixing_plan.can_mix(state, self, member) for member in state.ready(self.rules)):
            return self._finish(state)
        members = tuple(member.name for member in state.active() if member.update_round is not None)
        reason = f"{state.accepted} updates from {len(state.active())} members, {self.rules.rounds} rounds each"
        return RoundClosed(round_no=state.round_no, reason=reason, reported=members, missing=())

    def _finish(self, state: State) -> Finished:
        if state.stops_asked:
            return Finished(reason="requested", sentence=f"stopped on request after {state.accepted} updates")
        if state.accepted < self.rules.rounds * len(state.active()) and self.has_converged(state):
            return self.converged(state)
        sentence = f"{state.accepted} updates were admitted, {self.rules.rounds} per member"
        return Finished(reason="rounds", sentence=sentence)
