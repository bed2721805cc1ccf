"""Follows a run's folder from another process: reads new journal entries and the files beside the journal.

Read-only. Every refresh opens the journal and closes it again, so that no reader keeps SQLite from checkpointing its
WAL, and a journal that was restored or replaced is detected and read from the start.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from coordinator.decisions import facts
from coordinator.decisions.progress import RunProgress
from coordinator.observers.log_lines import event_of
from coordinator.observers.notice_file import read_notices
from coordinator.observers.pulse_file import Pulse, read_pulse
from coordinator.record.journal import JOURNAL, Entry, SqliteJournal, fact_of
from coordinator.record.traffic import TrafficCounts
from coordinator.runs import LOCK, stored_machine
from coordinator.watching.overview import RunEvent, RunOverview, RunSubject, Surroundings, overview_of
from coordinator.watching.sentences import sentence_of
from fedap_core.similarity import strangers
from protocol.host.locks import is_locked

_EVENTS_KEPT = 40
_QUIET = (facts.UpdateAccepted, facts.StatsAccepted, facts.RowPlanned, facts.RoundOpened, facts.Weighed)
"""Facts that every round has many of and the member table already shows."""


def run_clock_s(pulse: Pulse | None, last_s: float, *, stands: bool) -> float:
    """Return the time on the run clock. last_s: of the last fact; stands: whether the clock has stopped, because nobody
    serves the run or it has ended."""
    if pulse is None:
        return last_s
    since_s = 0.0 if stands else max(time.monotonic() - pulse.written_s, 0.0)
    return max(last_s, pulse.time_s + since_s)


class RunFollower:
    """Follows one folder. `refresh` reads new facts and returns an overview of the run. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: tuple[int, str | None] | None = None
        self._serial, self._last_s = 0, 0.0
        self._weighed: facts.Weighed | None = None
        self._traffic = TrafficCounts(folder, key=lambda _closed, member, _round_no, way: (member, way))

    def refresh(self) -> RunOverview:
        """Return the current overview of the run. InvalidInput if there is no run to read."""
        journal = SqliteJournal(self._folder / JOURNAL, read_only=True)
        try:
            self._prepare(journal)
            for entry in list(journal.entries(self._serial)):
                self._take(entry)
        finally:
            journal.close()
        self._traffic.read()
        state, found = self._machine.state, self._beside()
        waits = "" if state.ended else self._machine.waiting_for(found.now_s).reason
        config = self._config
        subject = RunSubject(
            run=config.run,
            algorithm=config.algorithm.name,
            mode=config.mode,
            rounds=config.rounds,
            scores_sealed=config.seals_scores,
        )
        return overview_of(
            subject,
            state,
            self._progress,
            found,
            waits=waits,
            fit_nobody=self._fit_nobody(),
            events=tuple(reversed(self._events)),
        )

    def _fit_nobody(self) -> tuple[tuple[str, float], ...]:
        if self._weighed is None:
            return ()
        least = self._machine.rules.strategy.least_similarity or 0.0
        return tuple(strangers(self._weighed.members, self._weighed.similarity, least))

    def _prepare(self, journal: SqliteJournal) -> None:
        """Start from the first entry: on the first call, and if the journal or the run's configuration was replaced."""
        mark = ((self._folder / JOURNAL).stat().st_ino, journal.metadata("config"))
        if mark == self._mark and journal.last_serial() >= self._serial:
            return
        self._config, _, self._machine = stored_machine(journal, self._folder)
        self._progress = RunProgress(rounds=self._config.rounds, continuous=self._config.mode == "continuous")
        self._events: deque[RunEvent] = deque(maxlen=_EVENTS_KEPT)
        self._serial, self._last_s = 0, 0.0
        self._weighed = None
        self._mark = mark

    def _take(self, entry: Entry) -> None:
        fact = fact_of(entry)
        self._machine.replay(fact, entry.time_s)
        self._progress.add(fact, entry.time_s)
        self._serial, self._last_s = entry.serial, entry.time_s
        if isinstance(fact, facts.Weighed):
            self._weighed = fact
        if not isinstance(fact, _QUIET):
            event = RunEvent(time_s=entry.time_s, event=event_of(fact), sentence=sentence_of(fact))
            self._events.append(event)

    def _beside(self) -> Surroundings:
        pulse, running = read_pulse(self._folder), is_locked(self._folder / LOCK)
        now_s = run_clock_s(pulse, self._last_s, stands=not running or self._machine.state.ended)
        room = os.statvfs(self._folder)
        return Surroundings(
            running=running,
            now_s=now_s,
            received_at=pulse.received_at if pulse is not None else {},
            traffic=self._traffic.counted,
            disk_free_bytes=room.f_bavail * room.f_frsize,
            disk_reserve_bytes=self._config.storage.reserve_bytes,
            notices=read_notices(self._folder),
        )
