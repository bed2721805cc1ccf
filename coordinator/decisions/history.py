"""Applies facts to the state of a run, live and on replay. No other module changes that state.

Makes no decisions: they were made before the fact was journalled, with the clock and the network of that moment. Equal
facts at equal times give equal states.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

import numpy as np

from coordinator.decisions import facts, instances, mixing_plan, ordering, stages
from coordinator.decisions.actions import BlobRef, Order, RowRef, Source, WeightsRef, step_at
from coordinator.decisions.admission import typical
from coordinator.decisions.modes import Mode
from coordinator.decisions.rules import Rules
from coordinator.decisions.scoring import scores_by_split
from coordinator.decisions.sealed_weights import given_with
from coordinator.decisions.state import Leaver, Member, State, Status
from fedap_core import directions
from fedap_core.strategies import Measure


def apply(state: State, mode: Mode, fact: facts.Fact, now: float) -> None:
    """Apply one fact that became true at `now` on the run clock."""
    following = stages.after(state.stage, fact)
    if isinstance(fact, facts.Finished):  # the last orders follow from the stage that ends
        _order_finish(state, mode.rules, fact.reason)
    before = state.stage, state.round_no
    state.stage = following
    if isinstance(fact, facts.ReportFact):
        _apply_report(state, mode, fact, now)
    elif isinstance(fact, facts.RoundFact):
        _apply_round(state, mode, fact, now)
    elif isinstance(fact, facts.MemberFact):
        _apply_member(state, mode, fact, now)
    else:
        _apply_run(state, mode.rules, fact, now)
    if (state.stage, state.round_no) != before:  # a leaver that returns from now on is a newcomer
        state.leavers = {}


def _apply_run(state: State, rules: Rules, fact: facts.RunFact, now: float) -> None:
    match fact:
        case facts.Began():
            state.began_at = state.opened_at = now
            state.allowed = rules.members.allowed
        case facts.AllowListSet():
            state.allowed = fact.allowed
        case facts.StopAsked():
            state.stops_asked += 1
        case facts.Paused():
            lacking = f"{fact.free_bytes:,} bytes of disk are free, {fact.needed_bytes:,} are needed"
            state.paused_at, state.paused_reason = now, fact.reason or lacking
        case facts.Resumed():
            _resumed(state, now)
        case facts.Finished():
            state.finish_reason, state.sentence, state.opened_at = fact.reason, fact.sentence, now
        case facts.Ended():
            state.ended = True
        case _:
            assert_never(fact)


def _apply_member(state: State, mode: Mode, fact: facts.MemberFact, now: float) -> None:
    if isinstance(fact, facts.Joined):
        _joined(state, mode, fact, now)
        return
    member = state.members[fact.member]
    match fact:
        case facts.Returned():
            _returned(member, fact, now)
        case facts.Contested():
            member.contested, member.contested_at = member.contested + fact.attempts, now
        case facts.Lost():
            member.status = Status.LOST
        case facts.Left():
            _left(state, mode, member)
        case facts.Quarantined():
            _exclude(state, member, Status.REMOVED if fact.code == "unknown-key" else Status.EXCLUDED)
        case facts.Refused():
            _refused(member, mode, fact)
        case _:
            assert_never(fact)


def _apply_report(state: State, mode: Mode, fact: facts.ReportFact, now: float) -> None:
    match fact:
        case facts.UpdateAccepted():
            _update_accepted(state, mode, fact, now)
        case facts.StatsAccepted():
            _stats_accepted(state, mode, fact)
        case facts.StatisticsLost():
            _statistics_lost(state, mode.rules, fact)
        case facts.GoodbyeAccepted():
            member = state.members[fact.member]
            _answer(member, "goodbye", fact.round_no)
            member.said_goodbye = True
        case _:
            assert_never(fact)


def _apply_round(state: State, mode: Mode, fact: facts.RoundFact, now: float) -> None:
    rules = mode.rules
    match fact:
        case facts.EnrolmentClosed():
            state.enrolled = True
            state.anchor = WeightsRef(source=Source.ANCHOR) if rules.anchor_file else None
        case facts.MeasuringOpened():
            _measuring_opened(state, rules, fact, now)
        case facts.Weighed():
            state.weighed_members, state.weighed = fact.members, np.asarray(fact.weights, dtype=np.float64)
            state.similarity = dict(zip(fact.members, fact.similarity, strict=False))
        case facts.RoundOpened():
            _round_opened(state, rules, fact, now)
        case facts.RowPlanned():
            member = state.members[fact.member]
            _order_training(state, rules, member, fact.round_no, alone=mixing_plan.can_mix(state, mode, member))
            member.answer_due = False
        case facts.RoundClosed():
            _round_closed(state, mode, fact)
        case facts.CaughtUp():
            _caught_up(state, mode, fact, now)
        case _:
            assert_never(fact)


def _joined(state: State, mode: Mode, fact: facts.Joined, now: float) -> None:
    leaver, before = state.leavers.pop(fact.member, None), state.members.get(fact.member)
    if leaver is not None and leaver.member.instance == fact.instance:
        _took_place_again(state, leaver, fact, now)
        return
    member = Member(
        name=fact.member,
        identity=fact.identity,
        train_samples=fact.train_samples,
        test_samples=fact.test_samples,
        first_samples=fact.train_samples,
    )
    member.instance, member.held_since = fact.instance, now
    if before is not None:  # a member that rejoins keeps its latest answered step and its strikes
        if before.instance == fact.instance:  # another process has not answered those steps
            member.answered = before.answered
        member.contested, member.contested_at = before.contested, before.contested_at
        instances.hand_over(before, member, fact.instance, now)
        if instances.is_same(before, fact.instance):
            member.admitted, member.first_samples = before.admitted, before.first_samples
            member.trend, member.doubt = before.trend, before.doubt  # rejoining does not clear them
    state.members = dict(sorted({**state.members, fact.member: member}.items()))
    if not (state.is_measuring or state.in_rounds):
        return
    if not state.is_ready(member, mode.rules):
        member.order = ordering.anchor_order(state, mode.rules, member)
    else:
        member.answer_due = mode.answers_individually(state.round_no)


def _left(state: State, mode: Mode, member: Member) -> None:
    """Stop waiting for a member, and leave its update out of the mix. Until the round ends, the update and statistics
    are kept: a participant reports no step twice, and the quorum may need the report if the member returns."""
    if (state.is_measuring or state.is_training) and not mode.answers_individually(state.round_no):
        leaver = Leaver(member=replace(member), took_part=member.name in state.round_members)
        state.leavers = {**state.leavers, member.name: leaver}
    _exclude(state, member, Status.LEFT)


def _took_place_again(state: State, leaver: Leaver, fact: facts.Joined, now: float) -> None:
    """Restore a member that returned before the round ended, as if it had not left."""
    member = leaver.member
    state.members[member.name] = member
    if leaver.took_part:
        state.round_members = tuple(sorted((*state.round_members, member.name)))
    _returned(member, fact, now)


def _returned(member: Member, fact: facts.Returned | facts.Joined, now: float) -> None:
    member.status, member.is_stalled = Status.PRESENT, False
    member.train_samples, member.test_samples = fact.train_samples, fact.test_samples
    if not instances.is_same(member, fact.instance):
        member.first_samples = fact.train_samples
    instances.hand_over(member, member, fact.instance, now)


def _exclude(state: State, member: Member, status: Status) -> None:
    """Stop waiting for a member; if it returns, it enters like a newcomer."""
    state.round_members = tuple(name for name in state.round_members if name != member.name)
    member.status = status
    member.order = member.earlier = None
    member.update_round = member.statistics = None
    member.row, member.row_of, member.row_phase = (), (), ""
    member.has_anchor = False
    member.answer_due = False


def _refused(member: Member, mode: Mode, fact: facts.Refused) -> None:
    member.strikes, member.admitted = member.strikes + 1, 0
    if fact.kind is not None and fact.round_no is not None:
        _answer(member, fact.kind, fact.round_no)
        member.answer_due = member.answer_due or (fact.kind == "update" and mode.answers_individually(fact.round_no))


def _answer(member: Member, kind: str, round_no: int) -> None:
    step, member.is_stalled = step_at(kind, round_no), False
    if member.answered is None or step.place > member.answered.place:
        member.answered = step


def _measuring_opened(state: State, rules: Rules, fact: facts.MeasuringOpened, now: float) -> None:
    if state.recipe is not None:  # warm-up is over: its last mix is the anchor, and its updates have another layout
        state.anchor = WeightsRef(source=Source.ANCHOR, row=state.recipe.receivers[0])
        state.anchor_recipe, state.recipe = state.recipe, None
        state.accuracies = ()
    state.round_no, state.opened_at = fact.round_no, now
    for member in state.active():
        member.update_round, member.answer_due = None, False
        ordering.replace_order(
            member,
            Order(kind="anchor", round_no=fact.round_no, weights=state.anchor, measure=rules.first_measure),
        )


def _stats_accepted(state: State, mode: Mode, fact: facts.StatsAccepted) -> None:
    member = state.members[fact.member]
    _answer(member, "stats", fact.round_no)
    member.has_anchor = True
    if mode.rules.first_measure is not Measure.NONE or mode.rules.members_compute_rows:
        member.statistics = BlobRef(member=fact.member, kind="stats", round_no=fact.round_no)
    if state.is_training and mode.answers_individually(state.round_no):
        member.answer_due = True


def _statistics_lost(state: State, rules: Rules, fact: facts.StatisticsLost) -> None:
    """Have the member measure again, between rounds or after its next report. The same samples under the same anchor
    give the same statistics, so W does not change."""
    member = state.members[fact.member]
    member.statistics = None
    if state.is_measuring:
        member.answered = step_at("update", fact.round_no - 1) if fact.round_no else None
    elif member.is_active and member.has_answered(member.order):
        ordering.replace_order(member, ordering.anchor_order(state, rules, member))


def _caught_up(state: State, mode: Mode, fact: facts.CaughtUp, now: float) -> None:
    """Open the latest round that members hold; mixes planned for earlier rounds are dropped."""
    rules, held, alone = mode.rules, dict(fact.held), mode.answers_individually(fact.round_no)
    state.opened_at, state.enrolled = now, True
    state.round_no = rules.warmup_rounds if alone else fact.round_no
    state.round_members, state.recipe = tuple(sorted(held)), None
    asked = (rules.round_plan(round_no).measure is not Measure.NONE for round_no in range(fact.round_no + 1))
    state.running_asked = state.running_asked or any(asked)
    if alone:
        state.accepted = max(state.accepted, sum(held.values()))
    for member in state.active():
        member.order = member.earlier = member.update_round = None
        member.answer_due = False
        if (round_no := held.get(member.name)) is not None:
            member.answered = step_at("stats", round_no)  # the step before the update that it must report again
            member.order = ordering.train_order(state, rules, member, round_no)


def _round_opened(state: State, rules: Rules, fact: facts.RoundOpened, now: float) -> None:
    state.round_no, state.opened_at = fact.round_no, now
    state.round_members = fact.members
    for name in fact.members:
        member = state.members[name]
        if member.order is None or member.order.kind != "train" or member.order.round_no < fact.round_no:
            order = _order_training(state, rules, member, fact.round_no)
            started = order.weights is not None and order.weights.source is not Source.ROW
            member.answer_due = member.answer_due or (started and state.recipe is not None)
    for member in state.active():  # a member whose statistics were refused may try again for the next round
        if not state.is_ready(member, rules) and member.has_answered(member.order):
            ordering.replace_order(member, ordering.anchor_order(state, rules, member))


def _order_training(state: State, rules: Rules, member: Member, round_no: int, *, alone: bool = False) -> Order:
    order = ordering.train_order(state, rules, member, round_no)
    if alone:
        row = RowRef(member=member.name, round_no=round_no, alone=True)
        order = replace(order, weights=WeightsRef(source=Source.ROW, row=row))
    state.running_asked = state.running_asked or order.measure is not Measure.NONE
    ordering.replace_order(member, order)
    return order


def _update_accepted(state: State, mode: Mode, fact: facts.UpdateAccepted, now: float) -> None:
    member = state.members[fact.member]
    _answer(member, "update", fact.round_no)
    _decay_strikes(member, mode.rules)
    state.accepted += 1
    member.accepted_at, member.update_round = state.accepted, fact.round_no
    member.distance, member.accuracy = fact.distance, _validation_accuracy(fact)
    member.trend = directions.extended(member.trend, fact.direction)
    if fact.row:
        member.row, member.row_phase = fact.row, str(mode.rules.round_plan(fact.round_no).phase)
        member.row_of = given_with(member, fact.round_no)
    if fact.measured:
        member.statistics = BlobRef(member=fact.member, kind="update-statistics", round_no=fact.round_no)
    if not state.is_ready(member, mode.rules):  # its statistics were lost in the meantime
        ordering.replace_order(member, ordering.anchor_order(state, mode.rules, member))
    if mode.answers_individually(fact.round_no):
        member.answer_due, state.opened_at = True, now
        _note_distances(state, state.active())
        _note_directions(state, [member])
        if state.accepted % max(len(state.active()), 1) == 0:
            _note_accuracy(state, state.active())
    else:
        closed = state.is_mixing or fact.round_no < state.round_no
        member.answer_due = member.answer_due or closed


def _validation_accuracy(fact: facts.UpdateAccepted) -> float | None:
    """Return the validation accuracy of the model that counts (`scoring`)."""
    score = scores_by_split(fact.scores).get("validation")
    return None if score is None else score.correct / score.samples


def _decay_strikes(member: Member, rules: Rules) -> None:
    """Take back strikes slowly, so that a member alternating good and bad updates is still excluded eventually."""
    member.admitted += 1
    if member.admitted >= rules.members.forgive_after:
        member.strikes, member.admitted = max(member.strikes - 1, 0), 0


def _note_distances(state: State, members: list[Member]) -> None:
    """Raise the typical step, never lower it: steps shrink during a run, and a newcomer's are as long as early ones."""
    found = typical(member.distance for member in members if member.distance is not None)
    if found is not None:
        state.typical_step = max(state.typical_step or 0.0, found)


def _note_directions(state: State, fresh: list[Member]) -> None:
    """Update the doubt of `fresh` members from the latest trends of all active members."""
    known = [member for member in state.active() if member.trend is not None]
    names = {member.name for member in fresh}
    if not known:
        return
    trends = np.stack([member.trend for member in known if member.trend is not None])
    found = directions.doubts(trends, np.asarray([member.doubt for member in known]))
    for member, doubt in zip(known, found, strict=True):
        if member.name in names:
            member.doubt = float(doubt)


def _note_accuracy(state: State, members: list[Member]) -> None:
    known = [member.accuracy for member in members if member.accuracy is not None]
    if known and len(known) == len(members):
        state.accuracies = (*state.accuracies, sum(known) / len(known))


def _round_closed(state: State, mode: Mode, fact: facts.RoundClosed) -> None:
    if mode.answers_individually(state.round_no):
        state.recipe = mixing_plan.final_recipe(state, mode)
    else:
        fresh = [state.members[name] for name in fact.reported]
        _note_distances(state, fresh)
        _note_directions(state, fresh)
        _note_accuracy(state, fresh)
        state.recipe = mixing_plan.round_recipe(state, mode.rules)
        if not mode.rules.pace.has_deadline:
            for member in (state.members[name] for name in fact.missing):
                member.is_stalled = member.is_stalled or member.status is Status.PRESENT
    for member in state.active():
        member.answer_due = False


def _resumed(state: State, now: float) -> None:
    if state.paused_at is not None:
        state.opened_at += now - max(state.paused_at, state.opened_at)
    state.paused_at, state.paused_reason = None, ""


def _order_finish(state: State, rules: Rules, reason: str) -> None:
    for member in state.active():
        member.order = ordering.finish_order(state, rules, member, reason)
        member.earlier, member.answer_due = None, False
