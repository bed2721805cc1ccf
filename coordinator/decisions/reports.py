"""Handles reports: whether a report is expected, what must be inspected, and whether it counts.

Values are checked off the socket's thread (Inspect), and the report waits here for the verdict. If the process dies
meanwhile, the report was not acknowledged and is sent again. If the file of an admitted report was lost, the report is
fetched again: a participant keeps its latest one and resends it when a heartbeat wants it, so a damaged update costs
only time as long as its member has not finished the next round.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.decisions.actions import Action, BlobRef, Discard, Inspect, Note, Order, Send, step_at
from coordinator.decisions.events import (
    GoodbyeArrived,
    Inspected,
    InspectionFailed,
    ReportArrived,
    StatsArrived,
    UpdateArrived,
)
from coordinator.decisions.facts import (
    Fact,
    GoodbyeAccepted,
    Refused,
    StatisticsLost,
    StatsAccepted,
    UpdateAccepted,
)
from coordinator.decisions.modes import Mode
from coordinator.decisions.sealed_weights import row_objection
from coordinator.decisions.state import Member, State
from fedap_core.strategies import Measure, Phase
from protocol.messages import ORDERS, Error, Heartbeat, Step

_KINDS: dict[type[ReportArrived], str] = {StatsArrived: "stats", UpdateArrived: "update", GoodbyeArrived: "goodbye"}

_TRAIN = ORDERS.index("train")


class LostReports:
    """Admitted reports that must be sent again. Statistics sent with an update are fetched again with that update."""

    def __init__(self) -> None:
        self._gone: dict[BlobRef, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._gone)

    def take(self, state: State, refs: Iterable[BlobRef]) -> list[StatisticsLost]:
        """Mark these as lost. Members do not keep statistics, so for those return the facts that make them measure
        again."""
        lost = []
        for ref in refs:
            if ref.kind != "stats":
                self.add(ref)
            elif ref.member in state.members and state.members[ref.member].statistics == ref:
                lost.append(StatisticsLost(member=ref.member, round_no=ref.round_no))
        return lost

    def add(self, ref: BlobRef) -> None:
        self._gone.setdefault(ref, False)

    def found(self, member: str, step: Step) -> None:
        """The report was received again, with everything that belongs to it."""
        self._gone = {ref: gone for ref, gone in self._gone.items() if not _is_of(ref, member, step)}

    def is_missing(self, member: str, step: Step) -> bool:
        """Whether this report was admitted before but lost, so that it is accepted again."""
        return bool(self._gone) and any(_is_of(ref, member, step) for ref in self._gone)

    def wanted_of(self, member: str) -> Step | None:
        """Return the report to request from a member."""
        rounds = [ref.round_no for ref, gone in self._gone.items() if ref.member == member and not gone]
        return step_at("update", max(rounds)) if rounds else None

    def received(self, member: str, beat: Heartbeat) -> None:
        """Note a heartbeat: a member that already holds a later order no longer has its earlier report."""
        if beat.have is not None:
            for ref in self._gone:
                if ref.member == member:
                    self._gone[ref] = beat.have.place > (ref.round_no, _TRAIN)

    def among(self, refs: Iterable[BlobRef]) -> bool:
        """Whether any of these is missing, so that nothing can be computed from them yet."""
        return any(ref in self._gone for ref in refs)

    def lost_among(self, refs: Iterable[BlobRef]) -> BlobRef | None:
        """Return one of these that its member no longer holds either."""
        return next((ref for ref in refs if self._gone.get(ref, False)), None)


_FAULTS = {True: "the coordinator's disk failed", False: "the coordinator no longer has the base of this difference"}


class Inspections:
    """The reports under inspection in this process."""

    def __init__(self, mode: Mode, missing: LostReports | None = None) -> None:
        self._mode, self._rules = mode, mode.rules
        self.missing = LostReports() if missing is None else missing
        self._waiting: dict[tuple[str, str, int], StatsArrived | UpdateArrived] = {}

    def wants(self, state: State, member: Member, step: Step) -> bool:
        """Whether a report is needed: requested, without a verdict, and not of the layout of an earlier phase."""
        if member.is_active and self.missing.is_missing(member.name, step):
            return True
        if not member.is_active or (member.answered is not None and step.place <= member.answered.place):
            return False
        if step.kind == "goodbye":
            return state.stage.is_over
        if step.kind == "stats":
            return self._rules.asks_first and (state.is_measuring or state.in_rounds)
        if self._mode.is_complete(state):  # the last mix is being made without it
            return False
        past_warmup = state.round_no >= self._rules.warmup_rounds
        of_warmup = step.round_no < self._rules.warmup_rounds
        return state.in_rounds and past_warmup is not of_warmup

    @property
    def waiting(self) -> int:
        """Number of reports without a verdict."""
        return len(self._waiting)

    def is_inspecting(self, member: str, step: Step) -> bool:
        return (member, step.kind, step.round_no) in self._waiting

    def under_inspection(self) -> frozenset[BlobRef]:
        """Return the blobs that may be admitted at any moment."""
        kinds = {"stats": ("stats",), "update": ("update", "update-statistics")}
        return frozenset(
            BlobRef(member=member, kind=blob, round_no=round_no)
            for member, kind, round_no in self._waiting
            for blob in kinds[kind]
        )

    def arrived(self, state: State, member: Member, event: ReportArrived) -> tuple[Fact | None, list[Action]]:
        """Handle a complete report: return a fact at once (goodbye), request an inspection, or discard it."""
        step = step_of(event)
        if not self.wants(state, member, step) or self.is_inspecting(member.name, step):
            discard = Discard(member=member.name, kind=step.kind, round_no=step.round_no)
            return None, [discard, Note(event="report.repeated", member=member.name, round_no=step.round_no)]
        if isinstance(event, GoodbyeArrived):
            return GoodbyeAccepted(member=member.name, round_no=event.round_no, scores=event.scores), []
        if state.paused_at is not None:
            discard = Discard(member=member.name, kind=step.kind, round_no=step.round_no)
            error = Error(code="no-space", reason="the coordinator's disk is full; it will ask again", about=step)
            return None, [discard, Send(connection=event.connection, member=member.name, message=error)]
        again = self.missing.is_missing(member.name, step)
        if isinstance(event, UpdateArrived) and (self._rules.members_compute_rows or event.row) and not again:
            wrong = row_objection(self._rules, member, event.round_no, event.row)
            if wrong:
                return self._refused(event, member, step, wrong)
        self._waiting[member.name, step.kind, step.round_no] = event
        return None, [self._inspect(state, member, event)]

    def _refused(
        self, event: UpdateArrived, member: Member, step: Step, reason: str
    ) -> tuple[Fact | None, list[Action]]:
        discard = Discard(member=member.name, kind=step.kind, round_no=step.round_no)
        error = Error(code="bad-row", reason=reason[:500], about=step)
        fact = Refused(member=member.name, code="bad-row", reason=reason, kind=step.kind, round_no=step.round_no)
        return fact, [discard, Send(connection=event.connection, member=member.name, message=error)]

    def _inspect(self, state: State, member: Member, event: StatsArrived | UpdateArrived) -> Inspect:
        if isinstance(event, StatsArrived):
            return Inspect(
                member=member.name, kind="stats", round_no=event.round_no, phase=Phase.MIXED, sent=None, limit=None,
                measure=self._rules.first_measure, samples=event.samples, announced=member.train_samples,
            )  # fmt: skip
        again = self.missing.is_missing(member.name, step_of(event))  # its distance was checked on first admission
        order = None if again else _order_for(member, step_at("train", event.round_no))
        return Inspect(
            member=member.name,
            kind="update",
            round_no=event.round_no,
            phase=self._rules.round_plan(event.round_no).phase,
            sent=order.weights if order is not None else None,
            limit=None if again else self._limit(state),
            measure=self._rules.strategy.round_measure if event.measured else Measure.NONE,
            samples=member.train_samples,
            announced=member.train_samples,
            train_loss=event.train_loss,
        )

    def _limit(self, state: State) -> float | None:
        """Return the outlier limit; None before a typical step is known. The computing thread adds the fixed bound."""
        return self._rules.admission.max_outlier * state.typical_step if state.typical_step else None

    def judged(self, state: State, event: Inspected, connection: str | None) -> tuple[Fact | None, list[Action]]:
        """Handle the verdict on a waiting report: it counts or is refused, once either way."""
        step = step_at(event.kind, event.round_no)
        report = self._waiting.pop((event.member, event.kind, event.round_no), None)
        if report is None:
            return None, []
        discard = Discard(member=event.member, kind=event.kind, round_no=event.round_no)
        if not self.wants(state, state.members[event.member], step):
            return None, [discard]
        if self.missing.is_missing(event.member, step):
            return None, self._judged_again(event, step, discard)
        if event.code is not None:
            error = Error(code=event.code, reason=event.reason[:500], about=step)
            answers = [Send(connection=connection, member=event.member, message=error)] if connection else []
            refused = Refused(
                member=event.member, code=event.code, reason=event.reason, kind=event.kind, round_no=event.round_no
            )
            return refused, [discard, *answers]
        return _accepted(event, report), []

    def _judged_again(self, event: Inspected, step: Step, discard: Discard) -> list[Action]:
        """Handle the verdict on a report that was admitted before and then lost: it is only stored again."""
        if event.code is not None:
            details = (("code", event.code), ("reason", event.reason[:200]))
            return [discard, Note(event="report.changed", member=event.member, round_no=step.round_no, details=details)]
        self.missing.found(event.member, step)
        return [Note(event="report.fetched_again", member=event.member, round_no=step.round_no)]

    def inspection_failed(self, event: InspectionFailed, connection: str | None) -> list[Action]:
        """Handle a failed inspection (our fault): the report stays unanswered, so heartbeats request it again."""
        if self._waiting.pop((event.member, event.kind, event.round_no), None) is None:
            return []
        discard = Discard(member=event.member, kind=event.kind, round_no=event.round_no)
        if connection is None:
            return [discard]
        step = step_at(event.kind, event.round_no)
        error = Error(code="no-space", reason=f"{_FAULTS[event.disk]}; it will ask again", about=step)
        return [discard, Send(connection=connection, member=event.member, message=error)]

    def leaves_free(self, member: Member, step: Step, sent_order: Order | None) -> bool:
        """Whether this report ends work on an order that was replaced, so that the next order may be sent."""
        replaced = sent_order is not None and member.order is not None and member.order.step != sent_order.step
        return (
            replaced
            and sent_order is not None
            and step.place >= sent_order.step.place
            and not self.is_inspecting(member.name, step)
        )


def step_of(event: ReportArrived) -> Step:
    """Return the step of a report."""
    return step_at(_KINDS[type(event)], event.round_no)


def _order_for(member: Member, step: Step) -> Order | None:
    return next((one for one in (member.order, member.earlier) if one is not None and one.place == step.place), None)


def _accepted(event: Inspected, report: StatsArrived | UpdateArrived) -> Fact:
    if isinstance(report, StatsArrived):
        return StatsAccepted(member=event.member, round_no=report.round_no, samples=report.samples)
    return UpdateAccepted(
        member=event.member,
        round_no=report.round_no,
        steps=report.steps,
        train_loss=report.train_loss,
        scores=report.scores,
        measured=report.measured,
        distance=event.distance,
        direction=event.direction,
        row=report.row,
    )


def _is_of(ref: BlobRef, member: str, step: Step) -> bool:
    return ref.member == member and ref.round_no == step.round_no and step.kind == "update"
