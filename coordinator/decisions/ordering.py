"""Which order a member gets next: to measure, to train, to finish, and with which weights.

Pure: state in, order out; only `replace_order` changes a member. When an order is made is `history`'s, when it is said
the machine's.
"""

from __future__ import annotations

from coordinator.decisions import mixing_plan
from coordinator.decisions.actions import Order, RowRef, Source, WeightsRef
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State
from fedap_core.strategies import Phase


def anchor_order(state: State, rules: Rules, member: Member) -> Order:
    """Measure before you train: for the open round of measuring, or for the next one that the member may enter."""
    round_no = state.round_no if state.is_measuring else state.round_no + 1
    if member.answered is not None and member.answered.place >= (round_no, 0):  # steps never go back
        round_no = member.answered.round_no + 1
    return Order(kind="anchor", round_no=round_no, weights=state.anchor, measure=rules.first_measure)


def train_order(state: State, rules: Rules, member: Member, round_no: int) -> Order:
    """Train this round, and bring running statistics if the round, or the lack of them, asks for it."""
    plan = rules.round_plan(round_no)
    measure = plan.measure
    if state.running_asked and member.statistics is None and plan.phase is Phase.MIXED:
        measure = rules.strategy.round_measure
    return Order(
        kind="train",
        round_no=round_no,
        weights=_row_or_start(state, rules, member, round_no),
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
    if state.round_no >= rules.warmup_rounds:
        if row is not None:
            weights = WeightsRef(source=Source.ROW, row=row)
        elif member.order is not None and member.order.kind == "train" and member.order.phase is not Phase.WARMUP:
            weights = member.order.weights
    return Order(kind="finish", round_no=round_no, weights=weights, reason=reason)
