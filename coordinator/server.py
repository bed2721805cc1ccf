"""The coordinator's event loop: waits for the socket, finished work, time and the operator; passes events to the
machine; performs the actions it returns, in order.

Durability depends on this order: blobs are on disk before the machine gets `Inspected`; the facts of all events of one
iteration are journalled together; only then are the other actions performed. Recovery replays the journal's facts, then
`Started` requests unfinished work. One thread does all of this; long work runs in the compute thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import structlog

from coordinator.computing.jobs import ComputeThread, DamagedReports, Done, Jobs
from coordinator.decisions import actions, events
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.run_clock import RunClock
from coordinator.observers import Observers
from coordinator.record.disk import SpaceGuard
from coordinator.record.folder_check import mark_not_held, mark_refetch
from coordinator.record.journal import Journal, Ledger, NotWritten, replay
from coordinator.record.journal_check import ACCEPTS_OLDER, OBSTACLE
from coordinator.record.model_forms import ModelForms
from coordinator.record.store import UPDATE, UPDATE_STATS, Store
from coordinator.wire.connections import Arrivals
from coordinator.wire.exchange import Exchange, Orders
from coordinator.wire.router import Router
from fedap_core.errors import InvalidInput
from fedap_core.strategies import Phase
from protocol.encodings import stored
from protocol.limits import SLICE_BYTES

log = structlog.get_logger()

BATCH = 256
"""Most messages handled per iteration, between two checks of the clock and of finished work; their facts are made
durable together."""

IDLE_S = 1.0
"""Seconds between two checks of the list of members and of the free disk space."""

GATHER_S = 0.1
"""Longest time a report waits to be inspected together with others, while it cannot make anything due without them:
checking, syncing and journalling one report costs nearly as much as ten. No member waits for it, and reports lost in a
crash are sent again."""

REST_S = 0.02
FEWEST_TO_REST = 4
"""How long small messages may wait in the socket while at least this many reports are awaited: waking up for one costs
more than handling it. The last reports are handled at once. Again and again, up to GATHER_S, as long as the socket
holds only members' messages and as many reports would still be missing if all of these were reports."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a coordinator; `runs` assembles them."""

    machine: RoundMachine
    journal: Journal
    ledger: Ledger
    store: Store
    forms: ModelForms
    jobs: Jobs
    router: Router
    exchange: Exchange
    arrivals: Arrivals
    orders: Orders
    space: SpaceGuard
    allowed: Callable[[], tuple[tuple[str, str], ...] | None]
    release: Callable[[], None]
    """Unlocks the run's folder."""
    observers: Observers
    list_fault: Callable[[], str]
    """Returns what is wrong with the list of members; empty if nothing."""
    older_advice: str
    """What the operator can do if the folder is older than the federation."""
    missing: tuple[actions.BlobRef, ...] = ()
    """Admitted reports whose files must be fetched again."""


Job = actions.Task | tuple[actions.Inspect, ...]
"""A job of the compute thread: one action, or all reports that wait for inspection."""


class Coordinator:
    """The event loop of one coordinator process."""

    def __init__(self, parts: Parts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._machine = parts.machine
        ran_s = replay(parts.machine, parts.journal)
        self._clock = RunClock(clock, ran_s=ran_s, stall_s=parts.machine.rules.pace.dead_after_s / 2)
        self._stops = 0
        self._stops_handled = 0
        self._stopped: actions.Stop | None = None
        self._accepts_older = False
        self._listed = parts.allowed()
        self._due: list[actions.Effect] = []
        """Actions that wait until the facts before them are durable."""
        self._uninspected: list[actions.Inspect] = []
        self._gathered_at = 0.0
        self._is_inspecting = False
        self._checked_at = -IDLE_S
        largest = parts.forms.updates(Phase.WARMUP).size_bytes(stored(parts.forms.upward))
        self._fits_messages = largest <= SLICE_BYTES
        """Whether updates fit into one message: slices are requested one after the other and must not wait."""
        self._not_written = ""
        self._compute: ComputeThread[Job] = ComputeThread(parts.router.wake, time.thread_time)

    def now(self) -> float:
        """Return the time on the run clock."""
        return self._clock.now()

    def request_stop(self) -> None:
        """Request a stop (SIGTERM), from any thread or signal handler. A second request stops at once."""
        self._stops += 1
        self._parts.router.wake()

    def run(self) -> actions.Stop:
        """Run until the end and return how the run ended."""
        try:
            if self._machine.state.ended:
                state = self._machine.state
                return actions.Stop(aborted=state.finish_reason == "aborted", sentence=state.sentence)
            self._accepts_older = bool(self._parts.journal.metadata(ACCEPTS_OLDER))
            self._decide(events.Started(missing=self._parts.missing, accepts_older=self._accepts_older))
            if self._listed is not None:  # it may have been edited while no process was running
                self._decide(events.AllowListChanged(allowed=self._listed))
            self._act()
            while self._stopped is None:
                if self._not_written:
                    self._wait_for_journal()
                else:
                    patience_s = self._patience()
                    self._rest(GATHER_S if patience_s is None else min(GATHER_S, patience_s))
                    self._parts.router.wait(self._patience(), hurry=self._parts.exchange.is_waiting)
                    self._extend_deadlines(patience_s)
                    self._turn()
                    self._extend_deadlines(0.0)
            return self._stopped
        finally:
            self._compute.close()
            self._parts.store.close()
            self._parts.router.close(linger_s=self._machine.rules.pace.heartbeat_s)
            self._parts.journal.close()
            self._parts.observers.close()
            self._parts.release()

    def _rest(self, longest_s: float) -> None:
        """Leave messages in the socket while many reports are awaited."""
        began = self.now()
        awaited = self._machine.awaited(began)
        if not self._fits_messages or awaited < FEWEST_TO_REST:
            return
        while not self._parts.router.rest(REST_S) and self.now() < began + longest_s:
            unread = self._parts.router.unread_members()
            if unread is None or awaited - unread < FEWEST_TO_REST or self._parts.exchange.is_delivering:
                return

    def _turn(self) -> None:
        """Run one iteration: handle messages, finished work, stop requests and deadlines."""
        for received in self._parts.router.received(BATCH):
            for event in self._parts.exchange.receive(received, self.now()):
                if isinstance(event, events.HelloArrived):  # its key may just have been listed
                    self._reload_member_list()
                self._decide(event)
        for done in self._compute.finished():
            for event in self._answer(done):
                self._decide(event)
        while self._stops_handled < self._stops:
            self._stops_handled += 1
            self._decide(events.StopRequested())
        if self.now() >= self._checked_at + IDLE_S:
            self._check_periodically()
        deadline = self._machine.next_deadline()
        if deadline is not None and self.now() >= deadline:
            self._decide(events.Tick())
        self._act()
        for event in self._parts.exchange.flush():
            self._decide(event)
        self._act()
        self._tell_operator()

    def _tell_operator(self) -> None:
        """Update the notices about the folder and the list of members for `status` and the log."""
        state, older = self._machine.state, self._machine.older
        sentence = older.sentence(state)
        advice = "" if not sentence or older.obstacle(state) else f". {self._parts.older_advice}"
        self._parts.observers.on_notice("folder", f"{sentence}{advice}")
        if self._listed is not None:
            fault = self._parts.list_fault()
            sentence = f"{fault}; the previous list stays in effect" if fault else ""
            self._parts.observers.on_notice("members_file", sentence)

    def _extend_deadlines(self, meant_s: float | None) -> None:
        """Extend deadlines if this process was suspended, or its disk or machine stalled: members are not at fault."""
        if (seconds := self._clock.forgive_stall(meant_s)) > 0.0:
            log.warning("coordinator.held_up", seconds=round(seconds, 1), effect="deadlines are extended by this time")

    def _wait_for_journal(self) -> None:
        """Wait while the journal cannot be written: nothing is received or sent until it can. A stop request ends the
        run at once: what was not journalled has not happened."""
        self._parts.router.rest(IDLE_S)
        if self._stops_handled < self._stops:
            sentence = f"stopped on request while the journal could not be written: {self._not_written}"
            self._stopped = actions.Stop(aborted=True, sentence=sentence)
        else:
            self._act()

    def _patience(self) -> float | None:
        deadline = self._machine.next_deadline()
        waits = [] if deadline is None else [deadline]
        if self._listed is not None or self._parts.space.is_low:
            waits.append(self._checked_at + IDLE_S)
        if self._uninspected and not self._is_inspecting:
            waits.append(self._gathered_at + GATHER_S)
        return max(min(waits) - self.now(), 0.0) if waits else None

    def _check_periodically(self) -> None:
        self._checked_at = self.now()
        opening = self._parts.space.is_low
        if (event := self._parts.space.check(opening=opening)) is not None:
            self._decide(event)
        self._reload_member_list()
        self._parts.observers.on_pulse(self._checked_at, self._machine.roster.last_received())

    def _reload_member_list(self) -> None:
        if self._listed is not None and (listed := self._parts.allowed()) != self._listed and listed is not None:
            self._listed = listed
            self._decide(events.AllowListChanged(allowed=listed))

    # ---- events in, actions out

    def _decide(self, event: events.Event) -> None:
        """Pass one event to the machine; its actions wait for `_act`."""
        if isinstance(event, SpaceGuard.OPENING) and (low := self._parts.space.check(opening=True)) is not None:
            self._decide(low)
        now = self.now()
        for action in self._machine.handle(event, now):
            if isinstance(action, actions.Persist):
                self._parts.ledger.add(action.fact, now)
            else:
                self._due.append(action)

    def _act(self) -> None:
        """Make the facts durable, then perform the actions. If the journal cannot be written, nothing is performed."""
        try:
            written = self._parts.ledger.commit(self._machine.state)
        except NotWritten as error:
            if not self._not_written:
                log.error("journal.not_written", reason=str(error), effect="the run waits for free disk space")
            self._not_written = str(error)
            return
        self._parts.observers.on_facts(written, self._machine.state)
        if self._accepts_older and not self._machine.older.accepted:  # the operator's agreement is valid only once
            self._accepts_older = False
            self._parts.journal.set_metadata(ACCEPTS_OLDER, "")
        if self._not_written:
            log.info("journal.written", effect="the run continues")
        self._not_written = ""
        due, self._due = self._due, []
        for action in due:
            self._perform(action)
        self._inspect_more()

    def _perform(self, action: actions.Effect) -> None:
        parts = self._parts
        match action:
            case actions.Send():
                parts.exchange.send(action.connection, action.message)
            case actions.SendOrder():
                parts.orders.order(action)
            case actions.SendWelcome():
                parts.orders.welcome(action)
            case actions.Forget():
                parts.exchange.forget(action.connection)
            case actions.Note():
                parts.observers.on_note(action)
            case actions.Stop():
                self._stop(action)
            case _:
                self._work_on(action)

    def _work_on(self, action: actions.Task) -> None:
        """Perform an action on stored tensors; all but the first two run in the compute thread."""
        parts = self._parts
        match action:
            case actions.Inspect():
                self._inspect(action)
            case actions.Discard():
                self._discard(action)
            case actions.Collect():
                parts.forms.forget_rows(action.rows)
                self._compute.submit(action, lambda: parts.store.collect(action.blobs, action.rows))
            case actions.Weigh():
                self._compute.submit(action, lambda: parts.jobs.weigh(action))
            case actions.Aggregate():
                self._compute.submit(action, lambda: parts.jobs.aggregate(action))
            case _:
                assert_never(action)

    def _discard(self, action: actions.Discard) -> None:
        kinds = (UPDATE, UPDATE_STATS) if action.kind == UPDATE else (action.kind,)
        for kind in kinds:
            ref = actions.BlobRef(member=action.member, kind=kind, round_no=action.round_no)
            self._parts.store.discard(ref)

    def _inspect(self, action: actions.Inspect) -> None:
        if not self._uninspected:
            self._gathered_at = self.now()
        self._uninspected.append(action)

    def _inspect_more(self) -> None:
        """Submit all waiting reports for inspection together, so that the disk is synced once for all."""
        if not self._uninspected or self._is_inspecting:
            return
        now = self.now()
        if now >= self._gathered_at + GATHER_S or not self._machine.awaited(now):
            waiting, self._uninspected = tuple(self._uninspected), []
            self._is_inspecting = True
            self._compute.submit(waiting, lambda: self._parts.jobs.inspect(waiting))

    def _stop(self, action: actions.Stop) -> None:
        if action.lost is not None:
            mark_not_held(self._parts.journal, [action.lost])
        if action.obstacle:
            self._parts.journal.set_metadata(OBSTACLE, action.obstacle)
        self._stopped = action

    def _answer(self, done: Done[Job]) -> list[events.Event]:
        """Return the events that a finished job leads to."""
        work = done.key
        if isinstance(work, tuple):
            self._is_inspecting = False
        if done.error is not None:
            return self._failed(work, done.error)
        if isinstance(work, actions.Aggregate) and isinstance(done.answer, list):
            for ref, payload in done.answer:
                self._parts.forms.add_row(ref, payload)
            log.info("rows.mixed", rows=len(done.answer), givers=len(work.givers), cpu_s=round(done.cpu_s, 4))
            return [events.MixingDone(ticket=work.ticket)]
        if isinstance(work, tuple) and isinstance(done.answer, list):
            failed = [one for one in done.answer if isinstance(one, events.InspectionFailed) and one.disk]
            return [*([self._disk_failed(failed[0].reason)] if failed else []), *done.answer]
        return [done.answer] if isinstance(done.answer, events.Event) else []

    def _failed(self, work: Job, error: Exception) -> list[events.Event]:
        name = "Inspect" if isinstance(work, tuple) else type(work).__name__
        log.error("work.failed", work=name, reason=str(error), exc_info=error)
        reason = str(error) if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
        if isinstance(work, actions.Weigh | actions.Aggregate):
            if isinstance(error, DamagedReports):
                return [self._damaged(work.ticket, error)]
            if isinstance(error, OSError):
                return [self._disk_failed(reason), events.WorkInterrupted(ticket=work.ticket)]
            return [events.WorkFailed(ticket=work.ticket, reason=reason[:500])]
        return []

    def _damaged(self, ticket: int, error: DamagedReports) -> events.WorkDamaged:
        """Move damaged reports aside. They are recorded first, so that a restart accepts that they are missing."""
        mark_refetch(self._parts.journal, error.faults)
        for ref, (path, wrong) in error.faults.items():
            kept = self._parts.store.set_aside(ref)
            aside = str(kept) if kept is not None else None
            log.error("report.damaged", participant=ref.member, file=str(path), wrong=wrong, kept_as=aside,
                      effect="its member is asked to send it again")  # fmt: skip
        return events.WorkDamaged(ticket=ticket, blobs=tuple(error.faults))

    def _disk_failed(self, reason: str) -> events.StorageLow:
        log.error("disk.failed", reason=reason, effect="the run pauses until the disk can be written")
        return self._parts.space.failed(reason[:400])
