"""Which stored reports the state of a run still builds on: without them it cannot be led on as it was.

Pure: state in, names out. What else may be kept for a while is `work`'s; whether files are whole is `folder_check`'s.
"""

from __future__ import annotations

from coordinator.decisions.actions import BlobRef, RowRef
from coordinator.decisions.state import State


def needed_blobs(state: State) -> frozenset[BlobRef]:
    """Reports that are mixed now, may have to be mixed again for somebody, will be mixed next, or give W."""
    if state.ended:
        return frozenset()
    rows = awaited_rows(state)
    needed: set[BlobRef] = set()
    for recipe in (state.recipe, state.anchor_recipe):
        if recipe is not None and rows & set(recipe.receivers):
            needed.update(recipe.givers)
    if not state.stage.is_over:
        for member in state.active():
            if member.statistics is not None:
                needed.add(member.statistics)
            if member.update_round is not None:
                needed.add(BlobRef(member=member.name, kind="update", round_no=member.update_round))
    return frozenset(needed)


def awaited_rows(state: State) -> set[RowRef]:
    """Rows that somebody still has to be sent, all of a round that is being mixed, and the anchor of newcomers."""
    rows: set[RowRef] = set()
    if state.recipe is not None and state.is_mixing:
        rows.update(state.recipe.receivers)
    if state.anchor is not None and state.anchor.row is not None and not state.stage.is_over:
        rows.add(state.anchor.row)
    for member in state.active():
        order = member.order
        row = order.weights.row if order is not None and order.weights is not None else None
        if row is not None and not member.has_answered(order):
            rows.add(row)
    return rows
