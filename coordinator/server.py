"""The coordinator as a process: waits for the socket, finished work, time and the operator; lets the machine decide;
performs what it answers, in order.

Durability is this order: blobs are on disk before `Inspected` is told, facts are journalled before anything that
follows them is said. Recovery feeds the journal's facts back into the machine, then `Started` calls for what is owed.
All of it is one thread; long work is the compute thread's.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from coordinator import actions, events, facts, snapshots
from coordinator.arrivals import Arrivals
from coordinator.compute import Compute, Done
from coordinator.exchange import Exchange
from coordinator.jobs import UPDATE, UPDATE_STATS, Jobs
from coordinator.journal import Journal
from coordinator.logs import log_fact, log_note
from coordinator.machine import RoundMachine
from coordinator.model_forms import ModelForms
from coordinator.orders import Orders
from coordinator.plain import from_plain, to_plain
from coordinator.router import Router
from coordinator.space import SpaceGuard
from coordinator.store import Store
from fedap_core.errors import InvalidInput
from protocol.messages import Heartbeat, Step

log = structlog.get_logger()

BATCH = 64
"""Messages taken between two looks at the clock and at finished work."""

IDLE_S = 1.0
"""Longest wait while something outside must be looked at: the list of members, a disk that was full."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything a coordinator is made of; `assembly` puts it together."""

    machine: RoundMachine
    journal: Journal
    store: Store
    forms: ModelForms
    jobs: Jobs
    router: Router
    exchange: Exchange
    arrivals: Arrivals
    orders: Orders
    space: SpaceGuard
    allowed: Callable[[], tuple[tuple[str, str], ...] | None]
    traffic: Callable[[int, Mapping[tuple[str, int, str], int]], None]
    """Keeps the bytes counted since the last round closed."""
    release: Callable[[], None]
    """Lets go of the run's folder."""


class Coordinator:
    """One life of a coordinator's process."""

    def __init__(self, parts: Parts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._machine = parts.machine
        self._clock = clock
        self._ran_s = replay(parts.machine, parts.journal)
        self._began = clock()
        self._serial = 0
        self._snapshot_due = False
        self._stops = 0
        self._stops_told = 0
        self._stopped: actions.Stop | None = None
        self._listed = parts.allowed()
        self._pending: deque[events.Event] = deque()
        self._compute: Compute[actions.Action] = Compute(parts.router.wake, time.thread_time)
        self._perform: Mapping[type[actions.Action], Callable[[Any, float], list[events.Event]]] = {
            actions.Persist: self._persist,
            actions.Discard: self._discard,
            actions.Collect: self._collect,
            actions.Send: lambda action, _now: parts.exchange.say(action.connection, action.message),
            actions.SendWelcome: lambda action, _now: parts.orders.welcome(action),
            actions.SendOrder: lambda action, _now: parts.orders.order(action),
            actions.Forget: lambda action, _now: parts.exchange.forget(action.connection),
            actions.Inspect: lambda action, _now: self._start(action, lambda: parts.jobs.inspect(action)),
            actions.Weigh: lambda action, _now: self._start(action, lambda: parts.jobs.weigh(action)),
            actions.Aggregate: lambda action, _now: self._start(action, lambda: parts.jobs.aggregate(action)),
            actions.Note: lambda action, _now: self._note(action),
            actions.Stop: lambda action, _now: self._stop(action),
        }

    def now(self) -> float:
        """The run clock: seconds that coordinators of this run have been alive."""
        return self._ran_s + self._clock() - self._began

    def request_stop(self) -> None:
        """SIGTERM: from any thread or signal handler. Twice means now."""
        self._stops += 1
        self._parts.router.wake()

    def run(self) -> actions.Stop:
        """Until the run has ended; returns how."""
        try:
            if self._machine.state.ended:
                state = self._machine.state
                return actions.Stop(aborted=state.finish_reason == "aborted", sentence=state.sentence)
            self._handle(events.Started())
            if self._listed is not None:  # edited while nobody was here to notice
                self._handle(events.AllowListChanged(allowed=self._listed))
            while self._stopped is None:
                self._parts.router.wait(self._patience(), hurry=self._parts.exchange.is_waiting)
                self._turn()
            return self._stopped
        finally:
            self._compute.close()
            self._parts.router.close(linger_s=self._machine.rules.pace.heartbeat_s)
            self._parts.journal.close()
            self._parts.release()

    def _turn(self) -> None:
        """Everything that is there to be done, once."""
        for received in self._parts.router.received(BATCH):
            for event in self._parts.exchange.hear(received, self.now()):
                self._handle(event)
        for done in self._compute.finished():
            for event in self._answer(done):
                self._handle(event)
        while self._stops_told < self._stops:
            self._stops_told += 1
            self._handle(events.StopRequested())
        self._look_around()
        deadline = self._machine.next_deadline()
        if deadline is not None and self.now() >= deadline:
            self._handle(events.Tick())
        for event in self._parts.exchange.flush():
            self._handle(event)

    def _patience(self) -> float | None:
        deadline = self._machine.next_deadline()
        waits = [] if deadline is None else [max(deadline - self.now(), 0.0)]
        if self._listed is not None or self._parts.space.is_low:
            waits.append(IDLE_S)
        return min(waits) if waits else None

    def _look_around(self) -> None:
        if self._parts.space.is_low and (event := self._parts.space.look(opening=True)) is not None:
            self._handle(event)
        if self._listed is not None and (listed := self._parts.allowed()) != self._listed and listed is not None:
            self._listed = listed
            self._handle(events.AllowListChanged(allowed=listed))

    # ---- events in, actions out

    def _handle(self, event: events.Event) -> None:
        """Let the machine decide on one event, and on those that performing its answer brings about."""
        self._pending.append(event)
        if len(self._pending) > 1:
            return  # an outer call is at work on them
        while self._pending:
            opening = isinstance(self._pending[0], SpaceGuard.OPENING)
            low = self._parts.space.look(opening=opening)
            if low is not None:
                self._pending.appendleft(low)
            now = self.now()
            for action in self._machine.handle(self._pending[0], now):
                self._pending.extend(self._perform[type(action)](action, now))
            self._acknowledge(self._pending[0])
            self._pending.popleft()
            if self._snapshot_due:  # every fact of this event is journalled, and the state is exactly those facts
                self._snapshot_due = False
                self._parts.journal.save_snapshot(snapshots.take(self._machine.state, self._serial))

    def _acknowledge(self, event: events.Event) -> None:
        """A goodbye is the last thing a participant waits to see received, and no order will ever tell it."""
        if isinstance(event, events.GoodbyeArrived):
            have = Step(kind="goodbye", round_no=event.round_no)
            beat = Heartbeat(run=self._machine.rules.run, round_no=event.round_no, have=have, want=None)
            self._pending.extend(self._parts.exchange.say(event.connection, beat))

    def _persist(self, action: actions.Persist, now: float) -> list[events.Event]:
        kind, fields = to_plain(action.fact)
        self._serial = self._parts.journal.append(time_s=now, kind=kind, body=json.dumps(fields).encode())
        if isinstance(action.fact, facts.RoundClosed):
            self._snapshot_due = (action.fact.round_no + 1) % snapshots.EVERY_ROUNDS == 0
            self._parts.traffic(action.fact.round_no, self._parts.exchange.taken_traffic())
        log_fact(action.fact)
        return []

    def _discard(self, action: actions.Discard, _now: float) -> list[events.Event]:
        self._parts.arrivals.judged(action.member, action.kind, action.round_no)
        kinds = (UPDATE, UPDATE_STATS) if action.kind == UPDATE else (action.kind,)
        for kind in kinds:
            ref = actions.BlobRef(member=action.member, kind=kind, round_no=action.round_no)
            self._parts.store.discard(ref)
        return []

    def _collect(self, action: actions.Collect, _now: float) -> list[events.Event]:
        self._parts.forms.forget_rows(action.rows)
        self._compute.submit(action, lambda: self._parts.store.collect(action.blobs, action.rows))
        return []

    def _start(self, action: actions.Action, job: Callable[[], object]) -> list[events.Event]:
        self._compute.submit(action, job)
        return []

    def _note(self, note: actions.Note) -> list[events.Event]:
        log_note(note)
        return []

    def _stop(self, action: actions.Stop) -> list[events.Event]:
        self._stopped = action
        return []

    def _answer(self, done: Done[actions.Action]) -> list[events.Event]:
        """What a finished job means for the machine."""
        action = done.key
        if done.error is not None:
            return self._failed(action, done.error)
        if isinstance(action, actions.Aggregate) and isinstance(done.answer, list):
            for ref, payload in done.answer:
                self._parts.forms.add_row(ref, payload)
            log.info("rows.mixed", rows=len(done.answer), givers=len(action.givers), cpu_s=round(done.cpu_s, 4))
            return [events.MixingDone(ticket=action.ticket)]
        if isinstance(action, actions.Inspect):
            self._parts.arrivals.judged(action.member, action.kind, action.round_no)
        return [done.answer] if isinstance(done.answer, events.Event) else []

    def _failed(self, action: actions.Action, error: Exception) -> list[events.Event]:
        log.error("work.failed", work=type(action).__name__, reason=str(error), exc_info=error)
        reason = str(error) if isinstance(error, InvalidInput | OSError) else f"{type(error).__name__}: {error}"
        if isinstance(action, actions.Inspect):
            self._parts.arrivals.judged(action.member, action.kind, action.round_no)
            return [
                events.Inspected(
                    member=action.member,
                    kind=action.kind,
                    round_no=action.round_no,
                    code="no-space",
                    reason=reason[:500],
                    distance=None,
                )
            ]
        if isinstance(action, actions.Weigh | actions.Aggregate):
            return [events.WorkFailed(ticket=action.ticket, reason=reason[:500])]
        return []


def replay(machine: RoundMachine, journal: Journal) -> float:
    """Feed a journal's facts back, from its latest snapshot on; returns the run clock's time of the last."""
    ran_s, after = 0.0, 0
    snapshot = journal.latest_snapshot()
    state = snapshots.restore(snapshot) if snapshot is not None else None
    if snapshot is not None and state is not None:
        machine.state = state
        after = snapshot.serial - 1  # its own entry once more, for the time alone
    for entry in journal.entries(after):
        ran_s = entry.time_s
        if state is None or entry.serial > after + 1:
            machine.handle(from_plain(entry.kind, json.loads(entry.body)), entry.time_s)
    return ran_s
