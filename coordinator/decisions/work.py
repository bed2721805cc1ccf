"""Decides which work to start: computing W, and mixing rows that the state requires and this process has not made.

The required work is derived from the state every time, so a restart is no special case: a new process has done
nothing, and requests whatever the state still needs. Keeps tickets and finished rows; knows no tensors.
"""

from __future__ import annotations

from coordinator.decisions import mixing_plan
from coordinator.decisions.actions import Action, Aggregate, BlobRef, Collect, RowRef, Stop, Weigh, WeightsRef
from coordinator.decisions.facts import RowPlanned, Weighed
from coordinator.decisions.modes import Mode
from coordinator.decisions.reports import LostReports
from coordinator.decisions.state import Member, Recipe, State
from fedap_core.strategies import Phase
from protocol.messages import Heartbeat


class PendingWork:
    """The work that runs off the socket's thread for this machine, and the rows that exist."""

    def __init__(self, mode: Mode, missing: LostReports | None = None) -> None:
        self._mode, self._rules = mode, mode.rules
        self._gone = LostReports() if missing is None else missing
        self._tickets = 0
        self._rows: set[RowRef] = set()
        self._failed: set[RowRef] = set()
        self._mixing: dict[int, Recipe] = {}
        self._held_up: set[RowRef] = set()
        """Rows that wait for lost reports to be sent again."""
        self._weighing: tuple[int, tuple[str, ...]] | None = None

    def due(self, state: State, now: float) -> list[Action]:
        """Return the work to start now."""
        if state.ended or state.paused_at is not None:
            return []
        actions = self._weigh(state) if self._mode.wants_weights(state, now) else []
        missing = self._missing(state)
        whole = [recipe for recipe in missing if not self._gone.among(recipe.givers)]
        self._held_up = {row for recipe in missing if recipe not in whole for row in recipe.receivers}
        return [*actions, *map(self._start, whole)]

    def hopeless(self, state: State, member: Member, beat: Heartbeat) -> list[Action]:
        """Halt the run if a heartbeat shows that a report lost by our disk is no longer held by its member either, and
        a member waits for its mix; empty otherwise."""
        if not self._gone:
            return []
        self._gone.received(member.name, beat)
        row = _row_awaited(member, beat)
        lost = self._lost_report(state, row) if row is not None else None
        if lost is None and state.is_mixing:
            lost = self._lost_report(state, None)
        if lost is None:
            return []
        what = f"blobs/{lost.kind}/{lost.round_no:07d}/{lost.member} is damaged or missing"
        sentence = f"{what}, {lost.member} no longer holds it, and {member.name} needs it"
        return [Stop(aborted=True, sentence=sentence, halted=True, lost=lost)]

    def _lost_report(self, state: State, row: RowRef | None) -> BlobRef | None:
        """Return a lost report without which this row (None: any needed row) can never be mixed. Separate rows are
        planned from the latest reports: they can be mixed once the report that their giver now holds arrives."""
        for recipe in self._missing(state):
            alone = any(one.alone for one in recipe.receivers)
            if not alone and (row is None or row in recipe.receivers):
                parted = [one for one in recipe.givers if _has_parted(state, one)]
                lost = self._gone.lost_among(recipe.givers) or next(filter(self._is_gone, parted), None)
                if lost is not None:
                    return lost
        return None

    def _is_gone(self, ref: BlobRef) -> bool:
        return self._gone.among((ref,))

    def give_up(self, state: State, *, agreed: bool) -> None:
        """If the operator agreed, do not mix rows of a finished run that lack a report. Members that wait for one keep
        the weights delivered before."""
        for recipe in self._missing(state) if agreed and state.stage.is_over else ():
            if self._gone.among(recipe.givers):
                self._failed.update(recipe.receivers)

    def has_mixed(self, recipe: Recipe | None) -> bool:
        """Whether all rows of a recipe can be sent."""
        return recipe is not None and self._rows.issuperset(recipe.receivers)

    def has(self, weights: WeightsRef | None) -> bool:
        """Whether the weights of an order can be sent."""
        return weights is None or weights.row is None or weights.row in self._rows

    def will_have(self, weights: WeightsRef | None) -> bool:
        """Whether the weights can be sent now, or once running or delayed work ends."""
        return self.has(weights) or (weights is not None and weights.row in self._under_way() | self._held_up)

    def replan_impossible_row(self, state: State) -> RowPlanned | None:
        """Return a new plan for a separate mix that is no longer possible: a crash lost it, and its givers have left.

        Planned again, the member starts from the weights that are available.
        """
        for member in state.active() if state.is_training else ():
            order = member.order
            row = order.weights.row if order is not None and order.weights is not None else None
            if order is None or row is None or not row.alone or member.has_answered(order):
                continue
            if not self.will_have(order.weights) and not mixing_plan.can_mix(state, self._mode, member):
                return RowPlanned(member=member.name, round_no=order.round_no)
        return None

    def mixed(self, ticket: int) -> None:
        """Note the end of an Aggregate. Tickets of an earlier process are ignored."""
        recipe = self._mixing.pop(ticket, None)
        if recipe is not None:
            self._rows.update(recipe.receivers)

    def weighed(
        self, ticket: int, weights: tuple[tuple[float, ...], ...], similarity: tuple[float, ...] = ()
    ) -> Weighed | None:
        """Note the end of a Weigh; return its fact if the ticket is known."""
        if self._weighing is None or self._weighing[0] != ticket:
            return None
        _, members = self._weighing
        self._weighing = None
        return Weighed(members=members, weights=weights, similarity=similarity)

    def interrupted(self, ticket: int) -> None:
        """Forget work that stopped halfway, so that it is requested again later."""
        self._mixing.pop(ticket, None)
        if self._weighing is not None and self._weighing[0] == ticket:
            self._weighing = None

    def failed(self, ticket: int) -> bool:
        """Note work that is impossible; return whether the ticket is known. It is not retried before a restart."""
        recipe = self._mixing.pop(ticket, None)
        if recipe is not None:
            self._failed.update(recipe.receivers)
        weighing = self._weighing is not None and self._weighing[0] == ticket
        if weighing:
            self._weighing = None
        return recipe is not None or weighing

    def collect(self, state: State, arriving: frozenset[BlobRef]) -> Collect:
        """Return what to keep: whatever is mixed now, may be mixed next, is under inspection, or may be sent again."""
        recipes = [one for one in (state.recipe, state.anchor_recipe) if one is not None] + list(self._mixing.values())
        blobs = {giver for recipe in recipes for giver in recipe.givers} | arriving
        rows = {row for recipe in recipes for row in recipe.receivers}
        for member in (*state.active(), *(one.member for one in state.leavers.values())):
            if member.statistics is not None:
                blobs.add(member.statistics)
            if member.update_round is not None:
                blobs.add(BlobRef(member=member.name, kind="update", round_no=member.update_round))
            for order in (member.order, member.earlier):
                if order is not None and order.weights is not None and order.weights.row is not None:
                    rows.add(order.weights.row)
        self._rows &= rows
        return Collect(blobs=frozenset(blobs), rows=frozenset(rows))

    def _weigh(self, state: State) -> list[Action]:
        members = state.measured()
        if self._weighing is not None:  # one at a time; if members change meanwhile, W is computed again afterwards
            return []
        known = [state.members[name] for name in members]
        statistics = tuple(one.statistics for one in known if one.statistics is not None)
        if self._gone.among(statistics):
            return []
        self._tickets += 1
        self._weighing = self._tickets, members
        samples = tuple(one.train_samples for one in known)
        return [Weigh(ticket=self._tickets, members=members, statistics=statistics, samples=samples)]

    def _missing(self, state: State) -> list[Recipe]:
        """Return recipes whose rows are needed but neither exist nor are being mixed."""
        here = self._rows | self._under_way() | self._failed
        needed = self._needed(state)
        wanted = [
            recipe
            for recipe in (state.recipe, state.anchor_recipe)
            if recipe is not None and not here.issuperset(recipe.receivers) and needed & set(recipe.receivers)
        ]
        covered = here | {row for recipe in wanted for row in recipe.receivers}
        for row in sorted(needed - covered, key=lambda one: (one.member, one.round_no)):
            recipe = self._own_recipe(state, row)
            if recipe is not None:
                wanted.append(recipe)
        return wanted

    def _under_way(self) -> set[RowRef]:
        return {row for recipe in self._mixing.values() for row in recipe.receivers}

    def _needed(self, state: State) -> set[RowRef]:
        """Return rows still to be sent to a member, and all rows of a round that is being mixed."""
        needed = set(state.recipe.receivers) if state.is_mixing and state.recipe else set()
        for member in state.active():
            order = member.order
            if order is None or member.has_answered(order) or order.weights is None or order.weights.row is None:
                continue
            needed.add(order.weights.row)
        return needed

    def _own_recipe(self, state: State, row: RowRef) -> Recipe | None:
        member = state.members[row.member]
        if not row.alone or not state.is_training:
            return None  # delivered before a crash; only `finish` would send it again
        if not state.is_ready(member, self._rules) or not mixing_plan.can_mix(state, self._mode, member):
            return None
        if self._mode.blocked(state, Phase.MIXED):
            return None
        return mixing_plan.row_recipe(state, self._mode, member, row.round_no)

    def _start(self, recipe: Recipe) -> Aggregate:
        self._tickets += 1
        self._mixing[self._tickets] = recipe
        return Aggregate(
            ticket=self._tickets,
            phase=recipe.phase,
            receivers=recipe.receivers,
            givers=recipe.givers,
            weights=recipe.weights,
        )


def _row_awaited(member: Member, beat: Heartbeat) -> RowRef | None:
    """Return the row of its order that a member still needs: none once it has carried out the order, even if its report
    has not arrived."""
    order = member.order
    if order is None or order.weights is None or member.has_answered(order) or beat.want is None:
        return None
    carried_out = beat.have is not None and beat.have.place >= order.step.place
    return None if carried_out else order.weights.row


def _has_parted(state: State, ref: BlobRef) -> bool:
    """Whether a report's member has said goodbye, so that nothing can be requested from it."""
    answered = state.members[ref.member].answered
    return answered is not None and answered.kind == "goodbye"


def needed_blobs(state: State) -> frozenset[BlobRef]:
    """Return reports that are mixed now, may have to be mixed again for a member, will be mixed next, or give W."""
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
    """Return rows still to be sent to a member, all rows of a round that is being mixed, and the newcomers' anchor."""
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
