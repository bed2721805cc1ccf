"""Decides which fact is due: an exclusion, the end of the run, the next step of enrolment or of a round.

A run has one of two modes, chosen once from its rules: `Barrier`, where a round waits for everyone, and
`continuous.Continuous`, where every report is answered at once. Other modules see only `Mode`. Pure: takes the state
and the time, returns a fact, or None if nothing is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from coordinator.decisions import mixing_plan, quorum
from coordinator.decisions.facts import (
    Ended,
    EnrolmentClosed,
    Fact,
    Finished,
    MeasuringOpened,
    Quarantined,
    RoundClosed,
    RoundOpened,
    RowPlanned,
)
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from fedap_core.arrays import FloatArray
from fedap_core.strategies import Measure, Phase


class Mode(ABC):
    """How rounds follow each other. Both modes share how members are excluded and how runs end."""

    age_to_self: bool
    """In a mix for a single member: whether the weight that other updates lose by age goes to the member's own."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    @abstractmethod
    def answers_individually(self, round_no: int) -> bool:
        """Whether a report of this round is answered separately and at once, not when the round closes."""

    @abstractmethod
    def next_fact(self, state: State, now: float, *, mixed: bool, was_sent: Callable[[Member], bool]) -> Fact | None:
        """Return the next due fact. mixed: the closed round's rows are made. was_sent: whether a member was sent its
        current order."""

    @abstractmethod
    def waiting_for(self, state: State, now: float) -> quorum.Readiness:
        """Return what the run is waiting for, in words that a status command can print."""

    @abstractmethod
    def wants_weights(self, state: State, now: float) -> bool:
        """Whether W should be computed (again) now."""

    @abstractmethod
    def is_complete(self, state: State) -> bool:
        """Whether the run has all the updates it will mix; another one would be counted but never used."""

    @abstractmethod
    def ages(self, state: State, members: Sequence[Member]) -> FloatArray:
        """Return (n,): the age of each member's latest update in a mix for a single member."""

    @abstractmethod
    def row_phase(self, state: State, member: Member) -> Phase:
        """Return the phase of a mix for this member alone."""

    def blocked(self, state: State, phase: Phase) -> bool:
        """Whether mixing in this phase has to wait for W."""
        return phase is Phase.MIXED and (state.lacks_weights(self.rules) or state.awaits_measure(self.rules))

    # ---- exclusions

    def exclusion(self, state: State) -> Quarantined | None:
        """Return the next member to exclude: too many refused messages, or a key that is no longer listed."""
        if state.stage.is_over:
            return None
        admitted, limit = None if state.allowed is None else set(state.allowed), self.rules.members.strikes
        for member in state.active():
            if member.strikes >= limit:
                reason = f"excluded after {member.strikes} refused messages (limit {limit})"
                return Quarantined(member=member.name, code="quarantined", reason=reason)
            if admitted is not None and (member.identity, member.name) not in admitted:
                return Quarantined(member=member.name, code="unknown-key", reason="the key was removed from the list")
        return None

    # ---- ends other than by the last round

    def ending(self, state: State, now: float) -> Fact | None:
        """Return the end of the run if due: on request, for lack of members, or once all have their final model."""
        if state.stage.is_over:
            return self._ended(state, now)
        return self._requested(state, now) or self._given_up(state, now)

    def deadlines(self, state: State) -> list[float]:
        """Return times on the run clock at which `ending` or the quorum may change without an event."""
        if state.stage.is_over:
            return [state.opened_at + self.rules.pace.linger_s, state.opened_at + self.rules.pace.longest_goodbye_s]
        first = state.opened_at + self._patience_s(state)
        return [first, first + self.rules.pace.give_up_s]

    def _patience_s(self, state: State) -> float:
        return self.rules.members.enrolment_s if state.is_enrolling else self.rules.pace.longest_wait_s

    def _ended(self, state: State, now: float) -> Ended | None:
        if state.ended or not quorum.farewell(state, self.rules, now).ready:
            return None
        return Ended(absent=tuple(member.name for member in state.active() if not member.said_goodbye))

    def _requested(self, state: State, now: float) -> Finished | None:
        if state.stops_asked > 1:
            return Finished(reason="aborted", sentence="stopped immediately on a second request")
        if not state.stops_asked:
            return None
        waiting = state.is_enrolling or state.is_measuring or state.paused_at is not None
        if state.is_training:
            verdict = self.waiting_for(state, now)
            waiting = waiting or (not verdict.ready and (verdict.late or verdict.stuck))
        if waiting or not state.active():
            return Finished(reason="requested", sentence=f"stopped on request while {state.stage}")
        return None

    def _given_up(self, state: State, now: float) -> Finished | None:
        if state.paused_at is not None or state.is_mixing or (state.enrolled and state.is_enrolling):
            return None
        verdict = self.waiting_for(state, now)
        if verdict.ready:
            return None
        if verdict.hopeless and not self._may_replace(state):
            return Finished(reason="aborted", sentence=verdict.reason)
        if now >= state.opened_at + self._patience_s(state) + self.rules.pace.give_up_s:
            return Finished(reason="aborted", sentence=f"gave up: {verdict.reason}")
        return None

    def _may_replace(self, state: State) -> bool:
        """Whether a member outside the open round may still enter it."""
        outside = [member for member in state.active() if member.name not in state.round_members]
        return state.is_training and any(
            state.is_ready(one, self.rules) or not one.has_answered(one.order) for one in outside
        )

    # ---- convergence

    def has_converged(self, state: State) -> bool:
        """Whether none of the last `patience` evaluations was better than all earlier ones."""
        patience = self.rules.pace.patience
        if patience is None or len(state.accuracies) <= patience:
            return False
        return max(state.accuracies[:-patience]) >= max(state.accuracies[-patience:])

    def converged(self, state: State) -> Finished:
        """Return the Finished fact for a run that `has_converged`."""
        best, patience = max(state.accuracies), self.rules.pace.patience
        sentence = f"validation accuracy did not exceed {best:.4f} in the last {patience} evaluations"
        return Finished(reason="converged", sentence=sentence)


class Barrier(Mode):
    """A round closes when everyone has reported, or at its deadline. Enrolment, measuring and warm-up work this way in
    both modes."""

    age_to_self = False

    def answers_individually(self, round_no: int) -> bool:
        del round_no
        return False

    def is_complete(self, state: State) -> bool:
        del state
        return False

    def next_fact(self, state: State, now: float, *, mixed: bool, was_sent: Callable[[Member], bool]) -> Fact | None:
        if state.is_enrolling:
            return self._enrol(state, now)
        if state.is_measuring:
            verdict = quorum.measuring(state, self.rules, now)
            return self._open(state, state.round_no) if verdict.ready else None
        if state.is_training:
            return self._answer_latecomer(state, was_sent) or self._close(state, now)
        if state.is_mixing and mixed and not state.awaits_measure(self.rules):
            return self._after_mixing(state)
        return None

    def waiting_for(self, state: State, now: float) -> quorum.Readiness:
        if state.is_enrolling:
            return quorum.enrolment(state, self.rules, now)
        if state.is_measuring:
            return quorum.measuring(state, self.rules, now)
        return quorum.round_closing(state, self.rules, now)

    def wants_weights(self, state: State, now: float) -> bool:
        """Statistics measured before training change only with membership: compute W as soon as possible. Running
        statistics arrive one by one with a round's updates: compute W once it is needed."""
        if not state.lacks_weights(self.rules) or not state.is_training or state.awaits_measure(self.rules):
            return False
        if self.rules.first_measure is not Measure.NONE:
            return state.round_no >= self.rules.warmup_rounds
        due = any(member.answer_due or member.waits_individually for member in state.active())
        return due or quorum.round_closing(state, self.rules, now).ready

    def ages(self, state: State, members: Sequence[Member]) -> FloatArray:
        """Return ages relative to the last closed round."""
        return mixing_plan.round_ages(members, state.round_no - 1)

    def row_phase(self, state: State, member: Member) -> Phase:
        del member
        return self.rules.round_plan(max(state.round_no - 1, 0)).phase

    def _enrol(self, state: State, now: float) -> Fact | None:
        if not state.enrolled:
            verdict = quorum.enrolment(state, self.rules, now)
            members = tuple(member.name for member in state.active())
            return EnrolmentClosed(members=members, reason=verdict.reason) if verdict.ready else None
        if self.rules.asks_first and not self.rules.warmup_rounds:
            return MeasuringOpened(round_no=0)
        return self._open(state, 0)

    def _open(self, state: State, round_no: int) -> RoundOpened:
        members = state.ready(self.rules)
        recipe = state.recipe
        if self.rules.participation < 1.0 and recipe is not None and recipe.receivers[0].round_no == round_no:
            names = {row.member for row in recipe.receivers}  # drawn when the closed round was mixed
            return RoundOpened(round_no=round_no, members=tuple(one.name for one in members if one.name in names))
        places = mixing_plan.taking_part(self.rules, members, round_no)
        return RoundOpened(round_no=round_no, members=tuple(members[place].name for place in places))

    def _answer_latecomer(self, state: State, was_sent: Callable[[Member], bool]) -> RowPlanned | None:
        """Give a member that reported after its round closed a mix with the others at once, as order of the open
        round."""
        before = self.rules.round_plan(max(state.round_no - 1, 0)).phase
        if state.round_no == self.rules.warmup_rounds or self.blocked(state, before):
            return None  # the first round (after warm-up) has no earlier round to mix
        for name in state.round_members:
            member = state.members[name]
            due = member.answer_due and member.status is Status.PRESENT and not member.has_answered(member.order)
            if due and not was_sent(member) and mixing_plan.can_mix(state, self, member):
                return RowPlanned(member=name, round_no=state.round_no)
        return None

    def _close(self, state: State, now: float) -> Fact | None:
        verdict = quorum.round_closing(state, self.rules, now)
        if verdict.ready:
            if self.blocked(state, self.rules.round_plan(state.round_no).phase):
                return None
            reported = quorum.reported(state)
            known = frozenset(reported)
            missing = tuple(n for n in state.round_members if n not in known and state.members[n].is_active)
            return RoundClosed(round_no=state.round_no, reason=verdict.reason, reported=reported, missing=missing)
        return self._reopen(state, verdict) if verdict.stuck or verdict.late else None

    def _reopen(self, state: State, verdict: quorum.Readiness) -> RoundOpened | None:
        """Let ready members enter a round that may never close without them: all of them if nobody is left to report,
        as many as the quorum lacks if the deadline is over. Otherwise a member that answers every heartbeat and never
        reports could stop the run while enough others are ready."""
        waiting = [one for one in state.ready(self.rules) if one.name not in state.round_members]
        if not verdict.stuck:
            lacking = self.rules.pace.quorum - len(quorum.reported(state))
            waiting = [one for one in waiting if one.status is Status.PRESENT][:lacking]
        if not waiting:
            return None
        names = {name for name in state.round_members if state.members[name].is_active}
        return RoundOpened(round_no=state.round_no, members=tuple(sorted(names | {one.name for one in waiting})))

    def _after_mixing(self, state: State) -> Fact:
        following = state.round_no + 1
        if state.stops_asked:
            return Finished(reason="requested", sentence=f"stopped on request after {following} rounds")
        if following >= self.rules.rounds:
            return Finished(reason="rounds", sentence=f"all {self.rules.rounds} rounds are done")
        if self.has_converged(state):
            return self.converged(state)
        if following == self.rules.warmup_rounds:
            return MeasuringOpened(round_no=following)
        return self._open(state, following)
