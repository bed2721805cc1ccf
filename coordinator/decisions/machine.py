"""The coordinator's state machine: `handle(event, now)` takes an event and returns actions in order.

It works in three steps: process the event; apply every fact that has become due, one after the other (`modes`); request
the work and send the orders that the new state requires. The last two visit every member and are skipped if the event
cannot make anything due (`quorum.Awaited`). No socket, file, clock, log or random number. After a crash the journal's
facts are replayed, which restores the state; `Started` then requests whatever is still to be done.
"""

from __future__ import annotations

import math
from typing import assert_never

from coordinator.decisions import (
    admission,
    events,
    facts,
    hello_answers,
    history,
    instances,
    ordering,
    quorum,
    reports,
)
from coordinator.decisions.actions import Action, BlobRef, Forget, Note, Persist, Send, Stop
from coordinator.decisions.continuous import mode_of
from coordinator.decisions.invariants import broken_laws
from coordinator.decisions.older_folder import OlderFolder
from coordinator.decisions.quorum import Awaited, Readiness
from coordinator.decisions.roster import Roster
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from coordinator.decisions.work import PendingWork
from protocol.messages import Error, Heartbeat, HelloRequired, Reject, Step

_COLLECTS = (facts.RoundOpened, facts.RowPlanned, facts.Finished)
"""Facts after which stored blobs and rows may no longer be needed."""


class RoundMachine:
    """The machine of one run. `state` is durable and derived from facts; everything else is lost with the process."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._mode = mode_of(rules)
        self._state = State()
        self.roster = Roster()
        self._forget_work()
        self.older = OlderFolder(self._mode)
        self._doubted: frozenset[str] = frozenset()
        self._told_waiting = False
        self._awaited = Awaited()
        self._deadline: float | None = None

    def _forget_work(self) -> None:
        """Forget inspections, computations and reports to fetch again: the process or the round starts again."""
        self.reports = reports.Inspections(self._mode)
        self.work = PendingWork(self._mode, self.reports.missing)

    # ---- interface to the shell

    @property
    def state(self) -> State:
        """The durable state. Read only: it changes by facts alone, which `handle` derives from events."""
        return self._state

    def restore(self, state: State) -> None:
        """Start from a stored state instead of an empty one; call before any fact or event."""
        self._state = state

    def replay(self, fact: facts.Fact, now: float) -> None:
        """Apply one fact of the journal with its time. Causes no actions; `Started`, after the last fact, does."""
        history.apply(self._state, self._mode, fact, now)

    def handle(self, event: events.Event, now: float) -> list[Action]:
        """Handle one event. now: time on the run clock, which never goes back."""
        if isinstance(event, events.FromSocket):
            actions = self._from_socket(event, now)
        elif isinstance(event, events.FromWork):
            actions = self._from_work(event, now)
        else:
            actions = self._from_operator(event, now)
        if self._awaited.absorbs(event, actions, now):
            return actions  # nothing else can be due because of it; the next Tick handles what is due by time
        return actions + self._settle(now)

    def _settle(self, now: float) -> list[Action]:
        """Apply due facts, then request work and send orders. Takes time proportional to the number of members."""
        before = self.state.ended
        actions = self._apply_due(now)
        free = not self.older.holds(self.state)
        actions += self.work.due(self.state, now) if free else []
        actions += ordering.due(self.state, self.rules, self.roster, self.work, self.reports, now, orders=free)
        actions += self._log_waiting(now)
        if self.state.ended and not before:
            actions.append(Stop(aborted=self.state.finish_reason == "aborted", sentence=self.state.sentence))
        self._awaited = Awaited.after(
            self.state, self.rules, alone=self._mode.answers_individually(self.state.round_no)
        )
        self._deadline = self._next_deadline(now)
        return actions

    def next_deadline(self) -> float | None:
        """When the next Tick is due at the latest; None: nothing happens by time alone. Later signs of life may have
        postponed it, but an early Tick is harmless."""
        return self._deadline

    def _next_deadline(self, now: float) -> float | None:
        if self.state.ended or self.state.began_at is None:
            return None
        times = [] if self.state.paused_at is not None else self._mode.deadlines(self.state)
        times += self.roster.deadlines(self.state.active(), self.rules.pace)
        return min((time for time in times if now < time < math.inf), default=None)

    def wants(self, member: str, step: Step) -> bool:
        """Whether a report would be inspected. Called before its payload is fetched."""
        known = self.state.members.get(member)
        return known is not None and self.reports.wants(self.state, known, step)

    def expects(self, connection: str, step: Step) -> bool:
        """Whether a report over this connection is wanted; never if the connection belongs to no member."""
        member = self.roster.member_of(connection)
        return member is not None and self.wants(member, step)

    def is_inspecting(self, member: str, step: Step) -> bool:
        """Whether a report has arrived and is still being inspected."""
        return self.reports.is_inspecting(member, step)

    def awaited(self, now: float) -> int:
        """Return how many more reports must arrive, at least, before anything can become due; until then inspections
        are not urgent. 0 if any report may be the last."""
        return max(len(self._awaited.members) - self.reports.waiting, 0) if now < self._awaited.until else 0

    def waiting_for(self, now: float) -> Readiness:
        """Return what the run is waiting for, in words for people."""
        if self.state.stage.is_over:
            return quorum.farewell(self.state, self.rules, now)
        return self._mode.waiting_for(self.state, now)

    def digest(self) -> str:
        """Return a digest that is equal for machines that replayed the same facts at the same times."""
        return self.state.digest()

    def check_invariants(self) -> None:
        """Raise AssertionError if an invariant is broken; for tests, after every event."""
        broken = broken_laws(self.state, self.roster)
        if broken:
            raise AssertionError("; ".join(broken))

    # ---- facts

    def _apply(self, fact: facts.Fact, now: float) -> list[Action]:
        """Apply a fact to the state and have it journalled before anything that follows from it."""
        history.apply(self.state, self._mode, fact, now)
        actions: list[Action] = [Persist(fact=fact)]
        if isinstance(fact, _COLLECTS):
            actions.append(self.work.collect(self.state, self.reports.under_inspection()))
        return actions

    def _apply_due(self, now: float) -> list[Action]:
        actions: list[Action] = []
        while self.state.began_at is not None and (fact := self._next_fact(now)) is not None:
            actions += self._apply(fact, now)
            if isinstance(fact, facts.Quarantined):
                actions += self._reject_excluded(fact)
            if isinstance(fact, facts.CaughtUp):
                self._forget_work()
                actions += ordering.ask_for_hellos(self.roster)
            if isinstance(fact, facts.RoundClosed):
                actions += self._log_doubted()
        return actions

    def _log_doubted(self) -> list[Action]:
        """Log the doubted members when the set changes: the operator should ask them what they train on."""
        doubted = {member.name: round(member.doubt, 2) for member in self.state.active() if member.doubt > 0.0}
        if doubted.keys() == self._doubted:
            return []
        self._doubted = frozenset(doubted)
        return [Note(event="members.doubted", round_no=self.state.round_no, details=tuple(doubted.items()))]

    def _log_waiting(self, now: float) -> list[Action]:
        """Log once, when only absent members keep a finished run from ending, for whom it waits and how long."""
        verdict = self.waiting_for(now) if self.state.stage.is_over and not self.state.ended else None
        before, self._told_waiting = self._told_waiting, verdict is not None and verdict.stuck
        if before or verdict is None or not verdict.stuck:
            return []
        return [Note(event="run.lingers", details=(("reason", verdict.reason), ("setting", "pace.linger_s")))]

    def _next_fact(self, now: float) -> facts.Fact | None:
        state = self.state
        if self.older.accepted:
            due = self.older.next_fact(state, self.roster, now, missing=bool(self.reports.missing))
            if due is not None:
                return due
        if self.older.holds(state):
            return None
        due = (
            self.roster.death(state.present(), self.rules.pace, now)
            or self._mode.exclusion(state)
            or self._mode.ending(state, now)
        )
        if due is not None or state.paused_at is not None:
            return due
        mixed = self.work.has_mixed(state.recipe)
        return self.work.replan_impossible_row(state) or self._mode.next_fact(
            state, now, mixed=mixed, was_sent=self._was_sent
        )

    def _was_sent(self, member: Member) -> bool:
        link = self.roster.link(member.name)
        return link is not None and link.has_sent_order(member)

    # ---- from clock and operator

    def _from_operator(self, event: events.FromOperator, now: float) -> list[Action]:
        state = self.state
        match event:
            case events.Tick():
                return []
            case events.Started():
                return self._started(event, now)
            case events.StopRequested():
                return self._stop_requested(now)
            case events.StorageLow(free_bytes=free, needed_bytes=needed, reason=reason):
                unwanted = state.paused_at is not None or (state.stage.is_over and not reason)
                return (
                    []
                    if unwanted
                    else self._apply(facts.Paused(free_bytes=free, needed_bytes=needed, reason=reason), now)
                )
            case events.StorageFree(free_bytes=free):
                return self._apply(facts.Resumed(free_bytes=free), now) if state.paused_at is not None else []
            case events.AllowListChanged(allowed=allowed):
                return self._apply(facts.AllowListSet(allowed=allowed), now) if allowed != state.allowed else []
            case _:
                assert_never(event)

    def _started(self, event: events.Started, now: float) -> list[Action]:
        self.roster.restart((member.name for member in self.state.active()), now)
        self._forget_work()
        self.older = OlderFolder(self._mode, accepted=event.accepts_older)
        if self.state.began_at is None:
            return self._apply(facts.Began(run=self.rules.run), now)
        note = Note(event="run.resumed", round_no=self.state.round_no, details=(("stage", str(self.state.stage)),))
        actions = [note, *self._ask_again(event.missing, now)]
        self.work.give_up(self.state, agreed=event.accepts_older)
        return actions

    def _ask_again(self, refs: tuple[BlobRef, ...], now: float) -> list[Action]:
        """Request reports that our disk lost: updates are sent again as reported, statistics are measured again."""
        lost = self.reports.missing.take(self.state, refs)
        return [action for fact in lost for action in self._apply(fact, now)]

    def _stop_requested(self, now: float) -> list[Action]:
        """Stop after the round. A run that waits for its operator halts: no notification, nothing journalled."""
        if self.older.holds(self.state):
            sentence = self.older.sentence(self.state) or "members were being asked what they hold"
            return [Stop(aborted=True, sentence=sentence, halted=True)]
        return self._apply(facts.StopAsked(), now)

    # ---- from the socket

    def _from_socket(self, event: events.FromSocket, now: float) -> list[Action]:
        if isinstance(event, events.HelloArrived):
            return self._hello_arrived(event, now)
        if isinstance(event, events.PeerLost):
            name = self.roster.release(event.connection)
            return [Note(event="connection.lost", member=name)] if name is not None else []
        if isinstance(event, events.PeerFaulted):
            name = self.roster.received(event.connection, now)
            refused = None if name is None else facts.Refused(member=name, code=event.code, reason=event.reason)
            return self._apply(refused, now) if refused is not None else []
        member, actions = self._alive(event.connection, now)
        return actions if member is None else [*actions, *self._from_member(member, event, now)]

    def _from_member(self, member: Member, event: events.FromMember, now: float) -> list[Action]:
        match event:
            case events.SignOfLife():
                return []
            case events.Beat(beat=beat):
                return self._beat(member, beat, now)
            case events.StatsArrived() | events.UpdateArrived() | events.GoodbyeArrived():
                fact, answers = self.reports.arrived(self.state, member, event)
                actions = self._apply(fact, now) if fact is not None else []
                return [*actions, *answers, *self._received(member, event.connection, reports.step_of(event))]
            case events.ReportDeclined(step=step):
                note = Note(event="report.repeated", member=member.name, round_no=step.round_no)
                return [note, *self._received(member, event.connection, step)]
            case events.LeaveArrived(reason=reason):
                self.roster.drop(member.name)
                return self._apply(facts.Left(member=member.name, reason=reason), now)
            case _:
                assert_never(event)

    def _hello_arrived(self, event: events.HelloArrived, now: float) -> list[Action]:
        """Welcome a participant or refuse it. A member's newest connection replaces the earlier one."""
        refusal, fact, welcome = hello_answers.answer(event, self.state, self.rules, self.roster, now)
        if refusal is not None or welcome is None:
            self.roster.release(event.connection)
            contested = self._contested(event, now) if refusal is not None and refusal.code == "name-in-use" else []
            answer = [Send(connection=event.connection, member=None, message=refusal)] if refusal is not None else []
            return [*contested, *answer]
        actions = self._apply(fact, now) if fact is not None else []
        earlier = self.roster.connect(welcome.member, event.connection, now, event.hello.process)
        if earlier is not None and earlier != event.connection:
            actions.append(Forget(connection=earlier))
        beat_at = now + self.rules.pace.heartbeat_s
        self._deadline = beat_at if self._deadline is None else min(self._deadline, beat_at)
        return [*actions, hello_answers.with_round(welcome, self.state)]

    def _contested(self, event: events.HelloArrived, now: float) -> list[Action]:
        """Another process claimed a member's name: journal it and warn the member, but not often."""
        name = admission.name_of(event.hello, event.identity, self.state.allowed)
        member, link = self.state.members.get(name or ""), self.roster.link(name or "")
        if member is None or link is None:
            return []
        link.rivals += 1
        if member.contested_at is not None and now < member.contested_at + instances.CONTESTED_EVERY_S:
            return []
        attempts, link.rivals = link.rivals, 0
        instance = instances.digest_of(event.hello.instance)
        actions = self._apply(facts.Contested(member=member.name, instance=instance, attempts=attempts), now)
        if link.connection is not None:
            reason = f"another process ({instance}) said hello as {member.name} and was refused; end it if it is yours"
            warning = Error(code="name-in-use", reason=reason, about=None)
            actions.append(Send(connection=link.connection, member=member.name, message=warning))
        return actions

    def _alive(self, connection: str, now: float) -> tuple[Member | None, list[Action]]:
        """Return the sender. A member that was considered lost has returned; a stranger is asked to say hello."""
        name = self.roster.received(connection, now)
        member = self.state.members.get(name) if name is not None else None
        if member is None:
            return None, [Send(connection=connection, member=None, message=HelloRequired())]
        if member.status is not Status.LOST:
            return member, []
        samples = {"train_samples": member.train_samples, "test_samples": member.test_samples}
        return member, self._apply(facts.Returned(member=member.name, instance=member.instance, **samples), now)

    def _beat(self, member: Member, beat: Heartbeat, now: float) -> list[Action]:
        self.older.received(self.state, member, beat)
        if self.older.holds(self.state):
            self._awaited.freed = True
            return list(self.older.halts(self.state))
        actions = self.work.hopeless(self.state, member, beat)
        link = self.roster.link(member.name)
        if link is None or self.roster.beat(member.name, beat) is None:
            return actions
        return [*actions, *ordering.order(self.work, member, link, now, asked=True)]

    def _received(self, member: Member, connection: str, step: Step) -> list[Action]:
        """Handle the receipt of a report, wanted or not. A member whose report is not used may get its next order. A
        goodbye is always confirmed, also a repeated one: its sender waits for that, and no order will follow."""
        link = self.roster.link(member.name)
        if link is not None and self.reports.leaves_free(member, step, link.sent_order):
            link.sent_order = None
            self._awaited.freed = True
        if step.kind != "goodbye":
            return []
        receipt = Heartbeat(run=self.rules.run, round_no=step.round_no, have=step, want=None)
        return [Send(connection=connection, member=member.name, message=receipt)]

    def _reject_excluded(self, fact: facts.Quarantined) -> list[Action]:
        connection = self.roster.drop(fact.member)
        if connection is None:
            return []
        rejection = Reject(code=fact.code, reason=fact.reason)
        return [Send(connection=connection, member=fact.member, message=rejection), Forget(connection=connection)]

    # ---- from finished work

    def _from_work(self, event: events.FromWork, now: float) -> list[Action]:
        match event:
            case events.Inspected(member=name) | events.InspectionFailed(member=name):
                return self._judged(event, self.roster.connection_of(name), now)
            case events.WeighingDone(ticket=ticket, weights=weights, similarity=similarity):
                fact = self.work.weighed(ticket, weights, similarity)
                return self._apply(fact, now) if fact is not None else []
            case events.MixingDone(ticket=ticket):
                self.work.mixed(ticket)
                return []
            case events.WorkInterrupted(ticket=ticket):
                self.work.interrupted(ticket)
                return []
            case events.WorkDamaged(ticket=ticket, blobs=blobs):
                self.work.interrupted(ticket)
                return self._ask_again(blobs, now)
            case events.WorkFailed(ticket=ticket, reason=reason):
                fails = self.work.failed(ticket) and not self.state.stage.is_over
                return self._apply(facts.Finished(reason="aborted", sentence=reason), now) if fails else []
            case _:
                assert_never(event)

    def _judged(
        self, event: events.Inspected | events.InspectionFailed, connection: str | None, now: float
    ) -> list[Action]:
        if isinstance(event, events.InspectionFailed):
            return self.reports.inspection_failed(event, connection)
        fact, answers = self.reports.judged(self.state, event, connection)
        return [*(self._apply(fact, now) if fact is not None else []), *answers]
