"""Decides which updates are mixed into which rows, and with which weights: the strategy's W restricted to the available
updates.

Pure: takes the state, returns a recipe. `fedap_core` does the mathematics of W, restriction and age. When to mix is
decided elsewhere; tensors are only named.
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
    """How a run's mode weighs updates by age in a mix for a single member; see `modes.Mode`."""

    rules: Rules
    age_to_self: bool

    def ages(self, state: State, members: Sequence[Member]) -> FloatArray: ...

    def row_phase(self, state: State, member: Member) -> Phase: ...


def full_weights(state: State, rules: Rules, members: Sequence[Member], phase: Phase) -> FloatArray:
    """Return W (n, n) over these members, as if all had reported.

    In a run that mixes by statistics, a member without them (it missed the measuring round, or is new) receives a mix
    by sample counts and gives nothing to others until its statistics arrive.
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
    """Return the mix that closes the open round: a row for every ready member that takes part in the next round, whose
    order delivers it; after the last round for all ready members.

    At least one member must have reported.
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
    """Return (r, n): the weight each receiver of a closed round gives each of n members, from these rows of W (r, n).

    places: indices of the receivers among the members. usable, own, discount: as in `mixing.restrict`.
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
    """Return rows of W without members that have no usable update; see `mixing.restrict`. places None: all rows."""
    if phase is Phase.MIXED:
        return strategy.restrict(rows, usable=usable, own=own, discount=discount, places=places)
    return mixing.restrict(rows, usable=usable, own=own, discount=discount, self_weight=None, places=places)


def taking_part(rules: Rules, members: Sequence[Member], round_no: int) -> Sequence[int]:
    """Return the indices of the members that get a model for round `round_no` and train it: all in warm-up, for the
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
    """Return (usable, own, discount) at the end of the open round."""
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
    """`round_recipe` for a sealed run; a member for which no mix is possible continues from its own model."""
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
    """Return the mix for a single member, delivered by its order `round_no`; see `can_mix`.

    With barriers: its own update, whatever its round, with the latest updates of the others, discounted by their age
    relative to the last closed round. Without barriers: the weight that others lose by age goes to the member itself.
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
        own = usable.copy()  # only this member's row is used; the other rows merely have to be valid
        row = restricted(rules.strategy, phase, weights, None, usable=usable, own=own, discount=discount)[place]
    found = _without_doubted(rules, phase, row[None, :], members, (place,))
    return _recipe(phase, (RowRef(member=member.name, round_no=round_no, alone=True),), members, usable, found)


def final_recipe(state: State, mode: Ageing) -> Recipe:
    """Return the last mix of a run without barriers: a row, delivered by `finish`, for every member that can have
    one."""
    members = state.ready(mode.rules)
    phase = mode.rules.round_plan(mode.rules.rounds - 1).phase
    served = [member for member in members if can_mix(state, mode, member)]
    rows = [_spread(row_recipe(state, mode, member, 0), members) for member in served]
    usable = _flags(member.update_round is not None for member in members)
    receivers = tuple(RowRef(member=member.name, round_no=next_round(member)) for member in served)
    return _recipe(phase, receivers, members, usable, np.stack(rows))


def can_mix(state: State, mode: Ageing, member: Member) -> bool:
    """Whether there is anything to mix for this member: its own update, or a usable one of another member."""
    if member.update_round is not None:
        return True
    members = state.ready(mode.rules)
    ages = mode.ages(state, members)
    least = 1 if mode.rules.sealing is None else min(2, len(members) - 1)  # sealed: never one other update on its own
    return int(_usable(members, ages, mode.rules).sum()) >= max(least, 1)


def next_round(member: Member) -> int:
    """Return the lowest round whose `train` comes after every order and every answered report of this member."""
    steps = (member.answered, member.order.step if member.order is not None else None)
    rounds = [one.round_no + (0 if one.kind in ("stats", "anchor") else 1) for one in steps if one is not None]
    return max(rounds, default=0)


def mixture_of(action: Aggregate, strategy: Strategy, tensors: Sequence[TensorSpec]) -> Mixture:
    """Return an Aggregate in the form that `fedap_core` computes. tensors: those of the phase, in wire order."""
    places = {giver.member: place for place, giver in enumerate(action.givers)}
    own = tuple(places.get(row.member) for row in action.receivers)
    return strategy.mixture(action.phase, action.weights, own, tensors)


def _without_doubted(
    rules: Rules, phase: Phase, weights: FloatArray, members: Sequence[Member], own: tuple[int, ...]
) -> FloatArray:
    """Reduce the weights of doubted members (`Member.doubt`). own: indices of the receivers among the members."""
    doubt = np.asarray([member.doubt for member in members])
    return directions.withhold(weights, own, doubt, personal=rules.strategy.is_personal(phase))


def _aged_row(weights: FloatArray, place: int, ages: FloatArray, usable: BoolArray, rules: Rules) -> FloatArray:
    row = mixing.age_to_self(weights, ages=ages, exponent=rules.pace.age_exponent)[place]
    row[place] += row[~usable].sum()
    row[~usable] = 0.0
    return np.asarray(row, dtype=np.float64)


def round_ages(members: Sequence[Member], round_no: int) -> FloatArray:
    """Return (n,): rounds between the latest update and `round_no`; 0 if there is none (it is not usable anyway)."""
    rounds = [round_no if one.update_round is None else one.update_round for one in members]
    return np.maximum(round_no - np.asarray(rounds, dtype=np.float64), 0.0)


def counted_ages(state: State, members: Sequence[Member]) -> FloatArray:
    """Return (n,): updates admitted from others since each member's latest, divided by the number of others."""
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
    """Build a recipe without unusable members: even a column of zeros would change the last bits of the product."""
    givers = tuple(
        BlobRef(member=one.name, kind="update", round_no=one.update_round)
        for one, used in zip(members, usable, strict=True)
        if used and one.update_round is not None
    )
    return Recipe(phase=phase, receivers=receivers, givers=givers, weights=np.ascontiguousarray(weights[:, usable]))


def _spread(recipe: Recipe, members: Sequence[Member]) -> FloatArray:
    """Return the recipe's row over all members instead of its givers only."""
    weights = {giver.member: weight for giver, weight in zip(recipe.givers, recipe.weights[0], strict=True)}
    return np.asarray([weights.get(one.name, 0.0) for one in members], dtype=np.float64)
