"""Invariants of the state.

Tests check them after every event; a shell may too. Pure: takes the state, returns a sentence per broken invariant.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coordinator.decisions.roster import Roster
from coordinator.decisions.state import Member, Recipe, State
from fedap_core.mixing import ROW_SUM_TOLERANCE


def broken_laws(state: State, roster: Roster) -> list[str]:
    """Return a sentence for each broken invariant; empty if all hold."""
    faults = [*_run(state), *roster.faults()]
    for name, member in state.members.items():
        faults += [f"{name}: {fault}" for fault in _member(state, member, roster)]
    for recipe in (state.recipe, state.anchor_recipe):
        faults += [] if recipe is None else list(_mix(recipe))
    return faults


def _run(state: State) -> Iterator[str]:
    if list(state.members) != sorted(state.members):
        yield "members are not in order"
    if list(state.round_members) != sorted(state.round_members):
        yield f"round members are not in order: {state.round_members}"
    if state.is_mixing and state.recipe is None:
        yield "a closed round has nothing to mix"
    if state.ended and not state.stage.is_over:
        yield f"ended while {state.stage}"
    if state.weighed is not None and state.weighed.shape != (len(state.weighed_members),) * 2:
        yield f"W {state.weighed.shape} for {len(state.weighed_members)} members"


def _member(state: State, member: Member, roster: Roster) -> Iterator[str]:
    link = roster.link(member.name)
    if not member.is_active and (member.order is not None or (link is not None and link.connection is not None)):
        yield f"{member.status}, and still has an order or a connection"
    if state.stage.is_over and member.is_active and (member.order is None or member.order.kind != "finish"):
        yield "the run is over and it was not told to finish"
    order = member.order
    if order is not None and member.earlier is not None and member.earlier.step.place >= order.step.place:
        yield f"the replaced order {member.earlier.step} is not before {order.step}"
    if member.update_round is not None and (member.answered is None or member.update_round > member.answered.round_no):
        yield f"an update of round {member.update_round} that was never judged"
    if order is not None and order.kind == "train" and order.weights is not None and order.weights != state.anchor:
        row = order.weights.row
        if row is not None and (row.member, row.round_no) != (member.name, order.round_no):
            yield f"order {order.step} delivers the row of another round or member, {row}"


def _mix(recipe: Recipe) -> Iterator[str]:
    names = [row.member for row in recipe.receivers]
    if names != sorted(set(names)) or [one.member for one in recipe.givers] != sorted(
        {o.member for o in recipe.givers}
    ):
        yield "rows or columns of a mix are not sorted members, each once"
    if not (recipe.weights >= 0).all() or not np.allclose(recipe.weights.sum(axis=1), 1.0, atol=ROW_SUM_TOLERANCE):
        yield "a row of weights is negative or does not sum to 1"
