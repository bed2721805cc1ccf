"""Handling of a report: whether it is expected, what must be inspected, and whether it counts.

Values are judged off the socket's thread (Inspect), so a report waits here for its judgement. If the process dies
meanwhile, nothing was promised: the report is not acknowledged and comes again. A report that was admitted and whose
file was lost since is fetched again: a participant keeps its latest one and sends it again when a heartbeat wants it,
so a damaged update costs nothing but time as long as its member has not finished the round after.
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
    """What is asked for again. A report is known by its update: statistics that came along come along again."""

    def __init__(self) -> None:
        self._gone: dict[BlobRef, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._gone)

    def take(self, state: State, refs: Iterable[BlobRef]) -> list[StatisticsLost]:
        """Ask for these; statistics are not kept by members, and the facts that call for measuring again come back."""
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
        """The report is here again, with all that belongs to it."""
        self._gone = {ref: gone for ref, gone in self._gone.items() if not _is_of(ref, member, step)}

    def is_missing(self, member: str, step: Step) -> bool:
        """Whether this report would be taken although it was admitted before."""
        return any(_is_of(ref, member, step) for ref in self._gone)

    def wanted_of(self, member: str) -> Step | None:
        """The report to ask a member for."""
        rounds = [ref.round_no for ref, gone in self._gone.items() if ref.member == member and not gone]
        return step_at("update", max(rounds)) if rounds else None

    def received(self, member: str, beat: Heartbeat) -> None:
        """A member whose kept order is a later one has forgotten what it reported before."""
        if beat.have is not None:
            for ref in self._gone:
                if ref.member == member:
                    self._gone[ref] = beat.have.place > (ref.round_no, _TRAIN)

    def among(self, refs: Iterable[BlobRef]) -> bool:
        """Whether any of these is missing: nothing can be made of them yet."""
        return any(ref in self._gone for ref in refs)

    def lost_among(self, refs: Iterable[BlobRef]) -> BlobRef | None:
        """One of these that its member no longer holds, either."""
        return next((ref for ref in refs if self._gone.get(ref, False)), None)


_FAULTS = {True: "the coordinator's disk failed", False: "the coordinator no longer has what this builds on"}


class Inspections:
    """The reports under inspection in this life of the process."""

    def __init__(self, mode: Mode, missing: LostReports | None = None) -> None:
        self._mode, self._rules = mode, mode.rules
        self.missing = LostReports() if missing is None else missing
        self._waiting: dict[tuple[str, str, int], StatsArrived | UpdateArrived] = {}

    def wants(self, state: State, member: Member, step: Step) -> bool:
        """Whether a report is of use: asked for, not judged yet, and not of a layout that is past."""
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
        """How many reports have no judgement yet."""
        return len(self._waiting)

    def is_inspecting(self, member: str, step: Step) -> bool:
        return (member, step.kind, step.round_no) in self._waiting

    def under_inspection(self) -> frozenset[BlobRef]:
        """Blobs that may be judged good any moment."""
        kinds = {"stats": ("stats",), "update": ("update", "update-statistics")}
        return frozenset(
            BlobRef(member=member, kind=blob, round_no=round_no)
            for member, kind, round_no in self._waiting
            for blob in kinds[kind]
        )

    def arrived(self, state: State, member: Member, event: ReportArrived) -> tuple[Fact | None, list[Action]]:
        """A complete report: a fact at once (goodbye), an inspection, or nothing but the bin."""
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
        again = self.missing.is_missing(member.name, step_of(event))  # it was compared when it was admitted
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
        """None where nobody has moved yet; the bound that always holds is the computing thread's to add."""
        return self._rules.admission.max_outlier * state.typical_step if state.typical_step else None

    def judged(self, state: State, event: Inspected, connection: str | None) -> tuple[Fact | None, list[Action]]:
        """The judgement of a report that was waiting: it counts, or it is refused; once is enough either way."""
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
        """A report that was admitted before and lost by us: nothing has changed but that it is here again."""
        if event.code is not None:
            details = (("code", event.code), ("reason", event.reason[:200]))
            return [discard, Note(event="report.changed", member=event.member, round_no=step.round_no, details=details)]
        self.missing.found(event.member, step)
        return [Note(event="report.fetched_again", member=event.member, round_no=step.round_no)]

    def unjudged(self, event: InspectionFailed, connection: str | None) -> list[Action]:
        """A report that a fault of ours kept from being judged: it is not answered, so heartbeats will ask for it."""
        if self._waiting.pop((event.member, event.kind, event.round_no), None) is None:
            return []
        discard = Discard(member=event.member, kind=event.kind, round_no=event.round_no)
        if connection is None:
            return [discard]
        step = step_at(event.kind, event.round_no)
        error = Error(code="no-space", reason=f"{_FAULTS[event.disk]}; it will ask again", about=step)
        return [discard, Send(connection=connection, member=event.member, message=error)]

    def leaves_free(self, member: Member, step: Step, said: Order | None) -> bool:
        """Whether the member has done what it was told and only then is nothing of it used: the next order may go."""
        replaced = said is not None and member.order is not None and member.order.step != said.step
        return (
            replaced
            and said is not None
            and step.place >= said.step.place
            and not self.is_inspecting(member.name, step)
        )


def step_of(event: ReportArrived) -> Step:
    """The report's place in the run."""
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
