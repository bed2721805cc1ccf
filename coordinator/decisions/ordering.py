"""Which order a member gets next and when, and the heartbeats in between: everything sent to members without a request.

`history` makes orders by the first functions here (to measure, to train, to finish, and with which weights). One rule
for sending them: a member is sent its present order once per connection, as soon as the weights exist, unless it is at
work on an earlier one; asked for it twice, it is sent again. So nothing needs to be remembered about who is owed what
after a crash, a new connection or a late mix. Pure but for `replace_order`, which changes a member, and its link.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.decisions import mixing_plan
from coordinator.decisions.actions import (
    Action,
    Forget,
    Order,
    RowRef,
    Send,
    SendOrder,
    Source,
    WeightsRef,
    step_at,
)
from coordinator.decisions.reports import Inspections
from coordinator.decisions.roster import Link, Roster
from coordinator.decisions.rules import Rules
from coordinator.decisions.sealed_weights import needs_row
from coordinator.decisions.state import Member, State
from coordinator.decisions.work import PendingWork
from fedap_core.strategies import Phase
from protocol.messages import MOST_WEIGHTS, ORDERS, REPORTS, Heartbeat, HelloRequired

_BEAT_SHARE = 0.9
"""Share of a heartbeat's period after which it may go out with others that are due: members were last spoken to at
different times, and a look at all of them for each one's heartbeat would be a look too many."""


def anchor_order(state: State, rules: Rules, member: Member) -> Order:
    """Measure before you train: for the open round of measuring, or for the next one that the member may enter. That is
    the open one where it lacks its quorum since somebody left."""
    here = sum(state.members[name].is_active for name in state.round_members)
    is_next = state.is_measuring or (state.is_training and here < rules.pace.quorum)
    round_no = state.round_no if is_next else state.round_no + 1
    if member.answered is not None and member.answered.place >= (round_no, 0):  # steps never go back
        round_no = member.answered.round_no + 1
    return Order(kind="anchor", round_no=round_no, weights=state.anchor, measure=rules.first_measure)


def train_order(state: State, rules: Rules, member: Member, round_no: int) -> Order:
    """Train this round, and bring running statistics if the round, or the lack of them, asks for it."""
    plan = rules.round_plan(round_no)
    measure = plan.measure
    lacking = member.statistics is None or (rules.members_compute_rows and member.statistics.kind == "stats")
    if state.running_asked and lacking and plan.phase is Phase.MIXED:
        measure = rules.strategy.round_measure
    return Order(
        kind="train",
        round_no=round_no,
        weights=_row_or_start(state, rules, member, round_no),
        peers=needs_row(state, rules, member, plan.phase) if rules.members_compute_rows else (),
        measure=measure,
        phase=plan.phase,
    )


def _row_or_start(state: State, rules: Rules, member: Member, round_no: int) -> WeightsRef:
    row = RowRef(member=member.name, round_no=round_no)
    if state.recipe is not None and state.recipe.row_of.get(member.name) == row:
        return WeightsRef(source=Source.ROW, row=row)
    if rules.start_from_anchor and round_no >= rules.warmup_rounds and state.anchor is not None:
        return state.anchor
    return WeightsRef(source=Source.INITIAL)


def replace_order(member: Member, order: Order) -> None:
    """Keep the oldest order that is still unanswered: later ones are not told to somebody who is at work."""
    replaces = member.order is not None and member.order.step != order.step
    if replaces and member.has_answered(member.earlier):
        member.earlier = None if member.has_answered(member.order) else member.order
    member.order = order


def finish_order(state: State, rules: Rules, member: Member, reason: str) -> Order:
    """The last mix where there is one, else what was delivered last; nothing of warm-up, which is not the model."""
    mixed = state.recipe is not None and state.is_mixing and reason != "aborted"
    row = state.recipe.row_of.get(member.name) if state.recipe is not None and mixed else None
    round_no = max(mixing_plan.next_round(member), row.round_no if row else 0)
    weights: WeightsRef | None = None
    mixed_from: tuple[tuple[str, float], ...] = ()
    if state.round_no >= rules.warmup_rounds:
        if row is not None and state.recipe is not None:
            weights = WeightsRef(source=Source.ROW, row=row)
            mixed_from = state.recipe.shares_of(member.name)[:MOST_WEIGHTS]
        elif member.order is not None and member.order.kind == "train" and member.order.phase is not Phase.WARMUP:
            weights = member.order.weights
    return Order(
        kind="finish",
        round_no=round_no,
        weights=weights,
        reason=reason,
        mixed_from=mixed_from,
        similarity=state.similarity.get(member.name),
    )


def due(
    state: State,
    rules: Rules,
    roster: Roster,
    work: PendingWork,
    inspections: Inspections,
    now: float,
    *,
    orders: bool = True,
) -> list[Action]:
    """Everything to say now, in the order of names. orders: whether any may be given."""
    actions: list[Action] = []
    for member in state.active() if not state.ended else ():
        link = roster.link(member.name)
        if link is None or link.connection is None:
            continue
        actions += order(work, member, link, now) if orders else []
        if now >= link.sent_at + _BEAT_SHARE * rules.pace.heartbeat_s:
            link.sent_at = now
            beat = heartbeat(state, rules, inspections, member, link)
            actions.append(Send(connection=link.connection, member=member.name, message=beat))
    return actions


def ask_for_hellos(roster: Roster) -> list[Action]:
    """Have everybody say hello: the welcome tells what is open now."""
    actions: list[Action] = []
    for name, connection in roster.connections().items():
        roster.release(connection)
        actions.append(Send(connection=connection, member=name, message=HelloRequired()))
        actions.append(Forget(connection=connection))
    return actions


def order(work: PendingWork, member: Member, link: Link, now: float, *, asked: bool = False) -> list[Action]:
    """A member's order, if it is time to say it."""
    present = member.order
    if present is None or member.has_answered(present) or link.connection is None:
        return []
    if present.kind == "finish" and not work.will_have(present.weights):
        # a row that a crash or a failure lost: what was delivered stands
        present = replace(present, weights=None, mixed_from=())
    link.offer(present)
    waits = link.has_sent_order(member) or (link.is_busy(member) and present.kind != "finish")
    if not work.has(present.weights) or (waits and not asked):
        return []
    link.said, link.sent_at = present, now
    return [SendOrder(connection=link.connection, member=member.name, order=present)]


def heartbeat(state: State, rules: Rules, inspections: Inspections, member: Member, link: Link) -> Heartbeat:
    """want: the report to what was said last, unless it is here already or there is no room for it."""
    again = inspections.missing.wanted_of(member.name)
    if again is not None and state.paused_at is None:
        here = inspections.is_inspecting(member.name, again)
        have = step_at("stats", again.round_no)  # the place before it: what we had, we have no longer
        return Heartbeat(run=rules.run, round_no=state.round_no, have=have, want=None if here else again)
    want = None
    if link.said is not None and not member.has_answered(link.said) and state.paused_at is None:
        want = step_at(REPORTS[ORDERS.index(link.said.kind)], link.said.round_no)
        if inspections.is_inspecting(member.name, want):
            want = None
    return Heartbeat(run=rules.run, round_no=state.round_no, have=member.answered, want=want)
