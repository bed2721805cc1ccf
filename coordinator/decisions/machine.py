"""The coordinator's decisions: `handle(event, now)` takes what happened and answers with what to do, in order.

Three steps: note what the event says; let every fact that has become true by it happen, one after the other (`ending`,
`barrier`, `continuous`); ask for the work and say the orders that the state then calls for. The last two look at every
member and are left out where nothing can follow (`lull`). No socket, file, clock, log or random number. A
fact given as an event is replay: it changes the state and calls for nothing; afterwards `Started` calls for whatever is
still owed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from coordinator.decisions import (
    admission,
    barrier,
    continuous,
    ending,
    events,
    facts,
    greeting,
    history,
    instances,
    reports,
    speaking,
)
from coordinator.decisions.actions import Action, BlobRef, Forget, Note, Persist, Send, Stop
from coordinator.decisions.invariants import broken_laws
from coordinator.decisions.lull import Lull
from coordinator.decisions.older_folder import OlderFolder
from coordinator.decisions.quorum import Verdict
from coordinator.decisions.roster import Roster
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, Stage, State, Status
from coordinator.decisions.work import Work
from protocol.messages import Error, HelloRequired, Reject, Step

_COLLECTS = (facts.RoundOpened, facts.RowPlanned, facts.Finished)
"""Facts after which something that was kept may have become useless."""


class RoundMachine:
    """One run. `state` is durable and follows from facts; everything else belongs to this life of the process."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.state = State()
        self.roster = Roster()
        self.reports = reports.Desk(rules)
        self.work = Work(rules, self.reports.missing)
        self.older = OlderFolder(rules)
        self._lull = Lull()
        self._deadline: float | None = None
        self._handlers: dict[type[events.Event], Callable[[Any, float], list[Action]]] = {
            events.Started: self._started,
            events.Tick: lambda _event, _now: [],
            events.StopRequested: self._stop_requested,
            events.StorageLow: self._storage_low,
            events.StorageFree: self._storage_free,
            events.AllowListChanged: self._allow_list_changed,
            events.Greeted: self._greeted,
            events.Heard: self._heard,
            events.Beat: self._beat,
            events.StatsArrived: self._arrived,
            events.UpdateArrived: self._arrived,
            events.GoodbyeArrived: self._arrived,
            events.ReportDeclined: self._declined,
            events.LeaveArrived: self._leave_arrived,
            events.PeerFaulted: self._peer_faulted,
            events.PeerLost: self._peer_lost,
            events.Inspected: self._inspected,
            events.InspectionFailed: self._inspection_failed,
            events.WorkInterrupted: self._work_interrupted,
            events.WorkDamaged: self._work_damaged,
            events.WeighingDone: self._weighing_done,
            events.MixingDone: self._mixing_done,
            events.WorkFailed: self._work_failed,
        }

    # ---- the three questions a shell may ask

    def handle(self, event: events.Event | facts.Fact, now: float) -> list[Action]:
        """Take one event, or on replay one fact, at a time of the run clock, which never goes back."""
        if isinstance(event, facts.Fact):
            history.apply(self.state, self.rules, event, now)
            return []
        actions = self._handlers[type(event)](event, now)
        if self._lull.holds(event, actions, now):
            return actions  # nothing follows from it; what is due by time alone is for the next Tick
        return actions + self._settle(now)

    def _settle(self, now: float) -> list[Action]:
        """Everything that follows from the state by now; costs time in proportion to the members."""
        before = self.state.ended
        actions = self._let_happen(now)
        free = not self.older.holds(self.state)
        actions += self.work.due(self.state, now) if free else []
        actions += speaking.due(self.state, self.rules, self.roster, self.work, self.reports, now, orders=free)
        if self.state.ended and not before:
            aborted = self.state.stage is Stage.ABORTED
            actions.append(Stop(aborted=aborted, sentence=self.state.sentence))
        self._lull = Lull.after(self.state, self.rules)
        self._deadline = self._next_deadline(now)
        return actions

    def next_deadline(self) -> float | None:
        """When a Tick is due at the latest; None: nothing happens by time alone. Signs of life since then may have
        moved it on: a Tick that comes too early is harmless."""
        return self._deadline

    def _next_deadline(self, now: float) -> float | None:
        if self.state.ended or self.state.began_at is None:
            return None
        times = [] if self.state.paused_at is not None else ending.waits_until(self.state, self.rules)
        for member in self.state.active():
            link = self.roster.link(member.name)
            if link is not None and member.status is Status.PRESENT:
                times.append(link.heard_at + self.rules.pace.dead_after_s)
            if link is not None and link.connection is not None:
                times.append(link.spoke_at + self.rules.pace.heartbeat_s)
        return min((time for time in times if now < time < math.inf), default=None)

    def wants(self, member: str, step: Step) -> bool:
        """Whether a report would be looked at: asked before its payload is fetched."""
        known = self.state.members.get(member)
        return known is not None and self.reports.wants(self.state, known, step)

    def expects(self, connection: str, step: Step) -> bool:
        """The same of a report that comes over a connection: one that is nobody's any more is not listened to."""
        member = self.roster.member_of(connection)
        return member is not None and self.wants(member, step)

    def is_inspecting(self, member: str, step: Step) -> bool:
        """Whether a report is here and has no judgement yet."""
        return self.reports.is_inspecting(member, step)

    def awaited(self, now: float) -> int:
        """How many reports, at least, must come before anything can follow from them and those under inspection, whose
        judgement is not urgent until then. 0 where any may be the last."""
        return max(len(self._lull.awaited) - self.reports.waiting, 0) if now < self._lull.until else 0

    def waiting_for(self, now: float) -> Verdict:
        """Why the run stands where it stands, for people."""
        return ending.waiting_for(self.state, self.rules, now)

    def digest(self) -> str:
        """Equal for machines that replayed the same facts at the same times."""
        return self.state.digest()

    def check_invariants(self) -> None:
        """Raise AssertionError when something holds that never may; for tests, after every event."""
        broken = broken_laws(self.state, self.roster)
        if broken:
            raise AssertionError("; ".join(broken))

    # ---- facts

    def _let(self, fact: facts.Fact, now: float) -> list[Action]:
        """Let a fact be: remember it, and have it journalled before anything that follows."""
        history.apply(self.state, self.rules, fact, now)
        actions: list[Action] = [Persist(fact=fact)]
        if isinstance(fact, _COLLECTS):
            actions.append(self.work.collect(self.state, self.reports.under_inspection()))
        return actions

    def _let_happen(self, now: float) -> list[Action]:
        actions: list[Action] = []
        while self.state.began_at is not None and (fact := self._next_fact(now)) is not None:
            actions += self._let(fact, now)
            if isinstance(fact, facts.Quarantined):
                actions += self._show_out(fact)
            if isinstance(fact, facts.CaughtUp):
                self.reports = reports.Desk(self.rules)
                self.work = Work(self.rules, self.reports.missing)
                actions += speaking.greet_anew(self.roster)
        return actions

    def _next_fact(self, now: float) -> facts.Fact | None:
        state, rules = self.state, self.rules
        if self.older.accepted:
            due = self.older.next_fact(state, self.roster, now, missing=bool(self.reports.missing))
            if due is not None:
                return due
        if self.older.holds(state):
            return None
        due = self._death(now) or greeting.offender(state, rules) or ending.next_fact(state, rules, now)
        if due is not None or state.paused_at is not None:
            return due
        due = self.work.unmakeable(state)
        if due is not None:
            return due
        mixed = self.work.has_mixed(state.recipe)
        if continuous.is_continuous(state, rules):
            return continuous.next_fact(state, rules, mixed=mixed)
        return barrier.next_fact(state, rules, now, mixed=mixed, told=self._is_told)

    def _death(self, now: float) -> facts.Lost | None:
        for member in self.state.present():
            link = self.roster.link(member.name)
            if link is not None and now >= link.heard_at + self.rules.pace.dead_after_s:
                return facts.Lost(member=member.name, silent_s=now - link.heard_at)
        return None

    def _is_told(self, member: Member) -> bool:
        link = self.roster.link(member.name)
        return link is not None and link.has_told(member)

    # ---- from clock and operator

    def _started(self, event: events.Started, now: float) -> list[Action]:
        self.roster.restart((member.name for member in self.state.active()), now)
        self.reports = reports.Desk(self.rules)
        self.work = Work(self.rules, self.reports.missing)
        self.older = OlderFolder(self.rules, accepted=event.accepts_older)
        if self.state.began_at is None:
            return self._let(facts.Began(run=self.rules.run), now)
        note = Note(event="run.resumed", round_no=self.state.round_no, details=(("stage", str(self.state.stage)),))
        actions = [note, *self._ask_again(event.missing, now)]
        self.work.give_up(self.state, agreed=event.accepts_older)
        return actions

    def _ask_again(self, refs: tuple[BlobRef, ...], now: float) -> list[Action]:
        """Have what our disk lost come again: an update as it was reported, statistics by measuring."""
        lost = self.reports.missing.take(self.state, refs)
        return [action for fact in lost for action in self._let(fact, now)]

    def _stop_requested(self, event: events.StopRequested, now: float) -> list[Action]:
        """Where the run waits for its operator, there is nothing to end: nobody is told, nothing is journalled."""
        del event
        if self.older.holds(self.state):
            sentence = self.older.sentence(self.state) or "members were being asked what they hold"
            return [Stop(aborted=True, sentence=sentence, halted=True)]
        return self._let(facts.StopAsked(), now)

    def _storage_low(self, event: events.StorageLow, now: float) -> list[Action]:
        if self.state.paused_at is not None or (self.state.stage.is_over and not event.reason):
            return []
        free, needed = event.free_bytes, event.needed_bytes
        return self._let(facts.Paused(free_bytes=free, needed_bytes=needed, reason=event.reason), now)

    def _storage_free(self, event: events.StorageFree, now: float) -> list[Action]:
        return self._let(facts.Resumed(free_bytes=event.free_bytes), now) if self.state.paused_at is not None else []

    def _allow_list_changed(self, event: events.AllowListChanged, now: float) -> list[Action]:
        return self._let(facts.AllowListSet(allowed=event.allowed), now) if event.allowed != self.state.allowed else []

    # ---- from the socket

    def _greeted(self, event: events.Greeted, now: float) -> list[Action]:
        """Let somebody in, or say why not. Its newest connection is the one that counts."""
        refusal, fact, welcome = greeting.answer(event, self.state, self.rules, self.roster, now)
        if refusal is not None or welcome is None:
            self.roster.release(event.connection)
            told = self._contested(event, now) if refusal is not None and refusal.code == "name-in-use" else []
            answer = [Send(connection=event.connection, member=None, message=refusal)] if refusal is not None else []
            return [*told, *answer]
        actions = self._let(fact, now) if fact is not None else []
        earlier = self.roster.connect(welcome.member, event.connection, now)
        if earlier is not None and earlier != event.connection:
            actions.append(Forget(connection=earlier))
        beat_at = now + self.rules.pace.heartbeat_s
        self._deadline = beat_at if self._deadline is None else min(self._deadline, beat_at)
        return [*actions, greeting.with_round(welcome, self.state)]

    def _contested(self, event: events.Greeted, now: float) -> list[Action]:
        """Another process wants a member's place: have it remembered and warn the one that has it, now and again."""
        name = admission.name_of(event.hello, event.identity, self.state.allowed)
        member, link = self.state.members.get(name or ""), self.roster.link(name or "")
        if member is None or link is None:
            return []
        link.rivals += 1
        if member.contested_at is not None and now < member.contested_at + instances.TOLD_EVERY_S:
            return []
        attempts, link.rivals = link.rivals, 0
        instance = instances.digest_of(event.hello.instance)
        actions = self._let(facts.Contested(member=member.name, instance=instance, attempts=attempts), now)
        if link.connection is not None:
            reason = f"another process ({instance}) said hello as {member.name} and was refused; end it if it is yours"
            warning = Error(code="name-in-use", reason=reason, about=None)
            actions.append(Send(connection=link.connection, member=member.name, message=warning))
        return actions

    def _alive(self, connection: str, now: float) -> tuple[Member | None, list[Action]]:
        """Who spoke. A member that was thought dead is back by that; a stranger is asked to say hello."""
        name = self.roster.heard(connection, now)
        member = self.state.members.get(name) if name is not None else None
        if member is None:
            return None, [Send(connection=connection, member=None, message=HelloRequired())]
        if member.status is not Status.LOST:
            return member, []
        samples = {"train_samples": member.train_samples, "test_samples": member.test_samples}
        return member, self._let(facts.Returned(member=member.name, instance=member.instance, **samples), now)

    def _heard(self, event: events.Heard, now: float) -> list[Action]:
        return self._alive(event.connection, now)[1]

    def _beat(self, event: events.Beat, now: float) -> list[Action]:
        member, actions = self._alive(event.connection, now)
        link = self.roster.link(member.name) if member is not None else None
        if member is None or link is None:
            return actions
        self.older.heard(self.state, member, event.beat)
        if self.older.holds(self.state):
            self._lull.freed = True
            return [*actions, *self.older.halts(self.state)]
        actions += self.work.hopeless(self.state, member, event.beat)
        if self.roster.beat(member.name, event.beat) is None:
            return actions
        return [*actions, *speaking.order(self.work, member, link, now, asked=True)]

    def _arrived(
        self, event: events.StatsArrived | events.UpdateArrived | events.GoodbyeArrived, now: float
    ) -> list[Action]:
        member, actions = self._alive(event.connection, now)
        if member is None:
            return actions
        fact, answers = self.reports.arrived(self.state, member, event)
        if fact is not None:
            actions += self._let(fact, now)
        self._let_go(member, reports.step_of(event))
        return [*actions, *answers]

    def _declined(self, event: events.ReportDeclined, now: float) -> list[Action]:
        member, actions = self._alive(event.connection, now)
        if member is None:
            return actions
        self._let_go(member, event.step)
        return [*actions, Note(event="report.repeated", member=member.name, round_no=event.step.round_no)]

    def _let_go(self, member: Member, step: Step) -> None:
        """Somebody who has done what it was told in vain may be told its next order."""
        link = self.roster.link(member.name)
        if link is not None and self.reports.leaves_free(member, step, link.said):
            link.said = None
            self._lull.freed = True

    def _leave_arrived(self, event: events.LeaveArrived, now: float) -> list[Action]:
        member, actions = self._alive(event.connection, now)
        if member is None:
            return actions
        self.roster.drop(member.name)
        return [*actions, *self._let(facts.Left(member=member.name, reason=event.reason), now)]

    def _peer_faulted(self, event: events.PeerFaulted, now: float) -> list[Action]:
        name = self.roster.heard(event.connection, now)
        if name is None:
            return []
        return self._let(facts.Refused(member=name, code=event.code, reason=event.reason), now)

    def _peer_lost(self, event: events.PeerLost, now: float) -> list[Action]:
        del now
        name = self.roster.release(event.connection)
        return [Note(event="connection.lost", member=name)] if name is not None else []

    def _show_out(self, fact: facts.Quarantined) -> list[Action]:
        connection = self.roster.drop(fact.member)
        if connection is None:
            return []
        rejection = Reject(code=fact.code, reason=fact.reason)
        return [Send(connection=connection, member=fact.member, message=rejection), Forget(connection=connection)]

    # ---- from finished work

    def _inspected(self, event: events.Inspected, now: float) -> list[Action]:
        member = self.state.members.get(event.member)
        if member is None:
            return []
        link = self.roster.link(event.member)
        fact, answers = self.reports.judged(self.state, member, event, link.connection if link is not None else None)
        return [*(self._let(fact, now) if fact is not None else []), *answers]

    def _inspection_failed(self, event: events.InspectionFailed, now: float) -> list[Action]:
        del now
        link = self.roster.link(event.member)
        return self.reports.unjudged(event, link.connection if link is not None else None)

    def _weighing_done(self, event: events.WeighingDone, now: float) -> list[Action]:
        fact = self.work.weighed(event.ticket, event.weights)
        return self._let(fact, now) if fact is not None else []

    def _mixing_done(self, event: events.MixingDone, now: float) -> list[Action]:
        del now
        self.work.mixed(event.ticket)
        return []

    def _work_interrupted(self, event: events.WorkInterrupted, now: float) -> list[Action]:
        del now
        self.work.interrupted(event.ticket)
        return []

    def _work_damaged(self, event: events.WorkDamaged, now: float) -> list[Action]:
        self.work.interrupted(event.ticket)
        return self._ask_again(event.blobs, now)

    def _work_failed(self, event: events.WorkFailed, now: float) -> list[Action]:
        if not self.work.failed(event.ticket) or self.state.stage.is_over:
            return []
        return self._let(facts.Finished(reason="aborted", sentence=event.reason), now)
