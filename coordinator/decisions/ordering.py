"""Decides which order a member gets next and when, and sends heartbeats: everything sent to members unrequested.

`history` creates orders with the first functions here (to measure, to train, to finish, and with which weights). One
rule governs sending: a member is sent its current order once per connection, as soon as the weights exist, unless it
still works on an earlier one; if it asks twice, the order is sent again. So no record of pending orders is needed after
a crash, a new connection or a late mix. Pure, except that `replace_order` changes a member, and `order` and `due` its
link.
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
"""Share of the heartbeat period after which a heartbeat may be sent along with others that are due. Members were last
sent to at different times; one pass over all of them per heartbeat would be too expensive."""


def anchor_order(state: State, rules: Rules, member: Member) -> Order:
    """Return the order to measure before training: for the round being measured, or for the next one that the member
    may enter. That is the open round if it lost its quorum because a member left."""
    here = sum(state.members[name].is_active for name in state.round_members)
    is_next = state.is_measuring or (state.is_training and here < rules.pace.quorum)
    round_no = state.round_no if is_next else state.round_no + 1
    if member.answered is not None and member.answered.place >= (round_no, 0):  # steps never go back
        round_no = member.answered.round_no + 1
    return Order(kind="anchor", round_no=round_no, weights=state.anchor, measure=rules.first_measure)


def train_order(state: State, rules: Rules, member: Member, round_no: int) -> Order:
    """Return the order to train this round, with running statistics if the round requires or the member lacks them."""
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
    """Set a member's order, and keep the oldest unanswered one: a member at work is not sent later orders."""
    replaces = member.order is not None and member.order.step != order.step
    if replaces and member.has_answered(member.earlier):
        member.earlier = None if member.has_answered(member.order) else member.order
    member.order = order


def finish_order(state: State, rules: Rules, member: Member, reason: str) -> Order:
    """Return the final order with the last mix or, without one, the weights delivered last; never those of warm-up,
    which are not the model."""
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
    """Return the orders and heartbeats to send now, sorted by member. orders: whether orders may be sent."""
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
    """Ask all connected members to say hello again: the welcome names the open round."""
    actions: list[Action] = []
    for name, connection in roster.connections().items():
        roster.release(connection)
        actions.append(Send(connection=connection, member=name, message=HelloRequired()))
        actions.append(Forget(connection=connection))
    return actions


def order(work: PendingWork, member: Member, link: Link, now: float, *, asked: bool = False) -> list[Action]:
    """Return a member's order if it is due to be sent. asked: the member requested it."""
    present = member.order
    if present is None or member.has_answered(present) or link.connection is None:
        return []
    if present.kind == "finish" and not work.will_have(present.weights):
        # a crash or a failure lost the row: the weights delivered before stay valid
        present = replace(present, weights=None, mixed_from=())
    link.offer(present)
    waits = link.has_sent_order(member) or (link.is_busy(member) and present.kind != "finish")
    if not work.has(present.weights) or (waits and not asked):
        return []
    link.sent_order, link.sent_at = present, now
    return [SendOrder(connection=link.connection, member=member.name, order=present)]


def heartbeat(state: State, rules: Rules, inspections: Inspections, member: Member, link: Link) -> Heartbeat:
    """Return a heartbeat that wants the report to the order sent last, unless it has arrived or the disk is full."""
    again = inspections.missing.wanted_of(member.name)
    if again is not None and state.paused_at is None:
        here = inspections.is_inspecting(member.name, again)
        have = step_at("stats", again.round_no)  # the step before it: we no longer have the report
        return Heartbeat(run=rules.run, round_no=state.round_no, have=have, want=None if here else again)
    want = None
    if link.sent_order is not None and not member.has_answered(link.sent_order) and state.paused_at is None:
        want = step_at(REPORTS[ORDERS.index(link.sent_order.kind)], link.sent_order.round_no)
        if inspections.is_inspecting(member.name, want):
            want = None
    return Heartbeat(run=rules.run, round_no=state.round_no, have=member.answered, want=want)
