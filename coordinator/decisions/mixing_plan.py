"""Which updates are mixed into which rows, and with which weights: the strategy's W applied to the available updates.

Pure: state in, recipe out. The mathematics of W, of restriction and of age is `fedap_core`'s. Whether it is time to mix
is decided elsewhere; tensors are named only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from coordinator.decisions.actions import Aggregate, BlobRef, RowRef
from coordinator.decisions.rules import Rules
from coordinator.decisions.sealed_weights import sealed_rows
from coordinator.decisions.state import Member, Recipe, State, Status
from fedap_core import directions, mixing, participation
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.parts import TensorSpec
from fedap_core.robust import Mixture
from fedap_core.strategies import Evidence, Measure, Phase, Strategy, mixing_of_phase


class Ageing(Protocol):
    """What the mode of a run says about a mix that one member gets by itself; see `modes.Mode`."""

    rules: Rules
    age_to_self: bool

    def ages(self, state: State, members: Sequence[Member]) -> FloatArray: ...

    def row_phase(self, state: State, member: Member) -> Phase: ...


def full_weights(state: State, rules: Rules, members: Sequence[Member], phase: Phase) -> FloatArray:
    """W (n, n) over these members, as if all had reported.

    Members without statistics in a run that mixes by them (they missed the round that measured, or are new) listen by
    sample counts and are not listened to, until theirs have come.
    """
    evidence = Evidence(counts=tuple(member.train_samples for member in members))
    by_statistics = rules.strategy.first_measure is not Measure.NONE or state.running_asked
    if phase is not Phase.MIXED or not by_statistics:
        return mixing_of_phase(rules.strategy, phase, evidence).weights
    by_counts = rules.strategy.by_counts(evidence)
    if state.weighed is None:
        return by_counts
    names = tuple(member.name for member in members)
    if names == state.weighed_members:
        return state.weighed
    known = _flags(name in state.weighed_members for name in names)
    places = [state.weighed_members.index(name) for name in names if name in state.weighed_members]
    weights = by_counts.copy()
    weights[known] = 0.0
    weights[np.ix_(known, known)] = state.weighed[np.ix_(places, places)]
    return weights


def round_recipe(state: State, rules: Rules) -> Recipe:
    """The mix that closes the open round: a row for every ready member that takes part in the round after, by which it
    is delivered; after the last round for everybody.

    Somebody must have reported.
    """
    members = state.ready(rules)
    phase = rules.round_plan(state.round_no).phase
    usable, own, discount = _standing(state, rules, members, phase)
    if rules.sealing is not None:
        return _sealed_round(state, rules, members, phase, own, usable)
    places = taking_part(rules, members, state.round_no + 1)
    receivers = tuple(RowRef(member=members[place].name, round_no=state.round_no + 1) for place in places)
    rows = full_weights(state, rules, members, phase)[list(places)]
    weights = round_rows(rules.strategy, phase, rows, places, usable=usable, own=own, discount=discount)
    weights = _without_doubted(rules, phase, weights, members, tuple(places))
    return _recipe(phase, receivers, members, usable, weights)


def round_rows(
    strategy: Strategy,
    phase: Phase,
    rows: FloatArray,
    places: Sequence[int],
    *,
    usable: BoolArray,
    own: BoolArray,
    discount: FloatArray,
) -> FloatArray:
    """(r, n): what each receiver of a closed round takes from each of n members, from these rows of W, (r, n).

    places: the receivers' places among the members. usable, own, discount: as `mixing.restrict` takes them.
    """
    if phase is Phase.MIXED:
        rows = strategy.narrowed(rows, usable=usable & (discount > 0.0), places=places)
    return rows if own.all() else restricted(strategy, phase, rows, places, usable=usable, own=own, discount=discount)


def restricted(
    strategy: Strategy,
    phase: Phase,
    rows: FloatArray,
    places: Sequence[int] | None,
    *,
    usable: BoolArray,
    own: BoolArray,
    discount: FloatArray,
) -> FloatArray:
    """Rows of W without members that have no usable update; see `mixing.restrict`. places: None for all rows."""
    if phase is Phase.MIXED:
        return strategy.restrict(rows, usable=usable, own=own, discount=discount, places=places)
    return mixing.restrict(rows, usable=usable, own=own, discount=discount, self_weight=None, places=places)


def taking_part(rules: Rules, members: Sequence[Member], round_no: int) -> Sequence[int]:
    """Places of those of these members who get a model for round `round_no` and train it: everybody in warm-up, for the
    anchor and after the last round."""
    if rules.participation == 1.0 or round_no < rules.warmup_rounds or round_no >= rules.rounds:
        return range(len(members))
    here = [place for place, one in enumerate(members) if one.status is Status.PRESENT or not rules.chooses_present]
    here = here or list(range(len(members)))
    found = participation.drawn(len(here), share=rules.participation, seed=rules.seed, round_no=round_no)
    return [here[place] for place in found]


def _standing(
    state: State, rules: Rules, members: Sequence[Member], phase: Phase
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """(usable, own, discount) at the end of the open round."""
    if rules.participation < 1.0 and phase is not Phase.WARMUP:
        latest = [participation.NEVER if one.update_round is None else one.update_round for one in members]
        personal = rules.strategy.is_personal(phase)
        exponent = rules.pace.age_exponent
        return participation.standing(
            np.asarray(latest, dtype=np.int64), round_no=state.round_no, personal=personal, exponent=exponent
        )
    ages = round_ages(members, state.round_no)
    discount = mixing.age_discount(ages, exponent=rules.pace.age_exponent)
    return _usable(members, ages, rules), _flags(one.update_round == state.round_no for one in members), discount


def _sealed_round(
    state: State, rules: Rules, members: Sequence[Member], phase: Phase, own: BoolArray, usable: BoolArray
) -> Recipe:
    """The same in a sealed run; a member for whom no mix can be made goes on from its own model."""
    found = sealed_rows(
        rules,
        members,
        range(len(members)),
        phase,
        full=partial(full_weights, state, rules, members, phase),
        ages=round_ages(members, state.round_no),
        usable=usable,
        own=own,
    )
    served = _any(found, axis=1)
    receivers = tuple(
        RowRef(member=member.name, round_no=state.round_no + 1)
        for member, is_served in zip(members, served, strict=True)
        if is_served
    )
    return _recipe(phase, receivers, members, _any(found, axis=0), found[served])


def row_recipe(state: State, mode: Ageing, member: Member, round_no: int) -> Recipe:
    """The mix that one member gets by itself, delivered by its order `round_no`; see `can_mix`.

    Between barriers: its own update, however old the round it belongs to, with the latest of the others by their age
    against the last closed round. Without barriers: what others lose by age goes to the member itself.
    """
    rules = mode.rules
    members = state.ready(rules)
    place = next(index for index, one in enumerate(members) if one.name == member.name)
    phase = mode.row_phase(state, member)
    mine = member.update_round is not None
    ages = mode.ages(state, members)
    usable = _usable(members, ages, rules)
    usable[place] = mine
    if rules.sealing is not None:
        full = partial(full_weights, state, rules, members, phase)
        row = sealed_rows(
            rules, members, (place,), phase, full=full, ages=ages, usable=usable, own=usable, to_self=mode.age_to_self
        )
        alone = RowRef(member=member.name, round_no=round_no, alone=True)
        return _recipe(phase, (alone,), members, _any(row, axis=0), row)
    weights = full_weights(state, rules, members, phase)
    if phase is Phase.MIXED:
        weights = rules.strategy.narrowed(weights, usable=usable)
    if mode.age_to_self and mine:
        row = _aged_row(weights, place, ages, usable, rules)
    else:
        discount = mixing.age_discount(ages, exponent=rules.pace.age_exponent)
        discount[place] = 1.0
        own = usable.copy()  # only this member's row is used; the others' must merely be possible
        row = restricted(rules.strategy, phase, weights, None, usable=usable, own=own, discount=discount)[place]
    found = _without_doubted(rules, phase, row[None, :], members, (place,))
    return _recipe(phase, (RowRef(member=member.name, round_no=round_no, alone=True),), members, usable, found)


def final_recipe(state: State, mode: Ageing) -> Recipe:
    """The last mix of a run without barriers: a row for all who can have one, each delivered by its `finish`."""
    members = state.ready(mode.rules)
    phase = mode.rules.round_plan(mode.rules.rounds - 1).phase
    served = [member for member in members if can_mix(state, mode, member)]
    rows = [_spread(row_recipe(state, mode, member, 0), members) for member in served]
    usable = _flags(member.update_round is not None for member in members)
    receivers = tuple(RowRef(member=member.name, round_no=next_round(member)) for member in served)
    return _recipe(phase, receivers, members, usable, np.stack(rows))


def can_mix(state: State, mode: Ageing, member: Member) -> bool:
    """Whether there is anything to mix for this member: an update of its own, or a usable one of somebody else."""
    if member.update_round is not None:
        return True
    members = state.ready(mode.rules)
    ages = mode.ages(state, members)
    least = 1 if mode.rules.sealing is None else min(2, len(members) - 1)  # not one other member's update alone
    return int(_usable(members, ages, mode.rules).sum()) >= max(least, 1)


def next_round(member: Member) -> int:
    """The lowest round of a `train` that stands after everything this member was asked or has answered."""
    steps = (member.answered, member.order.step if member.order is not None else None)
    rounds = [one.round_no + (0 if one.kind in ("stats", "anchor") else 1) for one in steps if one is not None]
    return max(rounds, default=0)


def mixture_of(action: Aggregate, strategy: Strategy, tensors: Sequence[TensorSpec]) -> Mixture:
    """One product as `fedap_core` takes it. tensors: those of the phase, in wire order."""
    places = {giver.member: place for place, giver in enumerate(action.givers)}
    own = tuple(places.get(row.member) for row in action.receivers)
    return strategy.mixture(action.phase, action.weights, own, tensors)


def _without_doubted(
    rules: Rules, phase: Phase, weights: FloatArray, members: Sequence[Member], own: tuple[int, ...]
) -> FloatArray:
    """Less of those who pull against the others. own: the receivers' places among the members."""
    doubt = np.asarray([member.doubt for member in members])
    return directions.withhold(weights, own, doubt, personal=rules.strategy.is_personal(phase))


def _aged_row(weights: FloatArray, place: int, ages: FloatArray, usable: BoolArray, rules: Rules) -> FloatArray:
    row = mixing.age_to_self(weights, ages=ages, exponent=rules.pace.age_exponent)[place]
    row[place] += row[~usable].sum()
    row[~usable] = 0.0
    return np.asarray(row, dtype=np.float64)


def round_ages(members: Sequence[Member], round_no: int) -> FloatArray:
    """(n,): rounds between the latest update and `round_no`; 0 where there is none (it is not usable anyway)."""
    rounds = [round_no if one.update_round is None else one.update_round for one in members]
    return np.maximum(round_no - np.asarray(rounds, dtype=np.float64), 0.0)


def counted_ages(state: State, members: Sequence[Member]) -> FloatArray:
    """(n,): updates admitted from others since a member's latest, divided by how many others there are."""
    since = [state.accepted - one.accepted_at for one in members]
    return np.asarray(since, dtype=np.float64) / max(len(members) - 1, 1)


def _usable(members: Sequence[Member], ages: FloatArray, rules: Rules) -> BoolArray:
    worth = mixing.age_discount(ages, exponent=rules.pace.age_exponent)
    return _flags(one.update_round is not None for one in members) & (worth > 0.0)


def _flags(values: Iterable[bool]) -> BoolArray:
    return np.asarray(list(values), dtype=np.bool_)


def _any(weights: FloatArray, *, axis: int) -> BoolArray:
    return np.asarray(weights.any(axis=axis), dtype=np.bool_)


def _recipe(
    phase: Phase, receivers: tuple[RowRef, ...], members: Sequence[Member], usable: BoolArray, weights: FloatArray
) -> Recipe:
    """Those who are not usable are left out: even a column of zeros would change the last bits of a product."""
    givers = tuple(
        BlobRef(member=one.name, kind="update", round_no=one.update_round)
        for one, used in zip(members, usable, strict=True)
        if used and one.update_round is not None
    )
    return Recipe(phase=phase, receivers=receivers, givers=givers, weights=np.ascontiguousarray(weights[:, usable]))


def _spread(recipe: Recipe, members: Sequence[Member]) -> FloatArray:
    """One row over all members, from one over its givers."""
    weights = {giver.member: weight for giver, weight in zip(recipe.givers, recipe.weights[0], strict=True)}
    return np.asarray([weights.get(one.name, 0.0) for one in members], dtype=np.float64)
