"""Mixing weights of a sealed run: integers, from rows that members request or, if the coordinator has the statistics,
from W.

Pure: takes the state, returns weights. `fedap_core.sealing.rows` decides which rows are valid and how they change when
members are absent; members compute the same and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from coordinator.decisions.actions import BlobRef
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State
from fedap_core import mixing
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.sealing import rows
from fedap_core.sealing.fixed_point import WHOLE
from fedap_core.strategies import Phase


def rule_of(rules: Rules, phase: Phase) -> rows.RowRule:
    """Return the constraints on rows of a phase."""
    most = 1.0 if rules.sealing is None else rules.sealing.max_peer_weight
    return rows.RowRule.of(rules.strategy, phase, max_peer_weight=most)


def statistics_of(state: State, rules: Rules) -> tuple[BlobRef, ...]:
    """Return the sealed statistics that members compute their rows from, sorted by name; none if the coordinator
    computes W, and during warm-up."""
    if rules.sealing is None or rules.sealing.statistics_to != "members":
        return ()
    return tuple(member.statistics for member in state.active() if member.statistics is not None)


def row_objection(rules: Rules, member: Member, round_no: int, row: tuple[tuple[str, int], ...]) -> str:
    """Return why the row of an update (or its absence) is refused; empty: it is not."""
    given = given_with(member, round_no)
    if not given:
        return "" if not row else "a row that was not requested"
    if not row:
        return "no row, although the order contained the statistics for one"
    phase = rules.round_plan(round_no).phase
    if len(dict(row)) != len(row):
        return "a row that names a member twice"
    return rows.objection(dict(row), member.name, frozenset(ref.member for ref in given), rule_of(rules, phase))


def given_with(member: Member, round_no: int) -> tuple[BlobRef, ...]:
    """Return the sealed statistics that a round's order included."""
    orders = (one for one in (member.order, member.earlier) if one is not None and one.kind == "train")
    return next((one.peers for one in orders if one.round_no == round_no), ())


def needs_row(state: State, rules: Rules, member: Member, phase: Phase) -> tuple[BlobRef, ...]:
    """Return the statistics to send with an order of this phase, because the member computed its row from other ones;
    empty if its row is current."""
    refs = statistics_of(state, rules)
    if phase is Phase.WARMUP or (member.row_of, member.row_phase) == (refs, str(phase)):
        return ()
    return refs


def sealed_rows(
    rules: Rules,
    members: Sequence[Member],
    places: Sequence[int],
    phase: Phase,
    *,
    full: Callable[[], FloatArray],
    ages: FloatArray,
    usable: BoolArray,
    own: BoolArray,
    to_self: bool = False,
) -> FloatArray:
    """Return (r, n) for the members at `places`: rows sum to 1 in steps of 2^-20, or are all 0 if no mix is possible.

    full: returns W over these members, called only if the coordinator computes it. usable, own: as in
    `mixing.restrict`.
    """
    rule, found = rule_of(rules, phase), np.zeros((len(places), len(members)))
    names = [member.name for member in members]
    worth = mixing.age_discount(ages, exponent=rules.pace.age_exponent)
    requested = _requested(rules, members, phase, rule, full)
    for number, place in enumerate(places):
        there = {names[j]: float(worth[j]) for j in range(len(names)) if j != place and usable[j] and worth[j] > 0.0}
        if own[place]:
            there[names[place]] = 1.0
        row = requested(place)
        got = rows.granted(row, names[place], there, rule, members=len(row), to_self=to_self)
        found[number] = [got.get(name, 0) / WHOLE for name in names]
    return found


def _requested(
    rules: Rules, members: Sequence[Member], phase: Phase, rule: rows.RowRule, full: Callable[[], FloatArray]
) -> Callable[[int], Mapping[str, int]]:
    names = tuple(member.name for member in members)
    if rules.sealing is not None and rules.sealing.statistics_to == "members":

        def by_request(place: int) -> Mapping[str, int]:
            member = members[place]
            if member.row and member.row_phase == str(phase):
                return dict(member.row)
            return rows.alike(names, member.name, rule)

        return by_request
    weights = full()
    return lambda place: rows.request(dict(zip(names, map(float, weights[place]), strict=True)), names[place], rule)
