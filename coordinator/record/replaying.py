"""A journal's facts fed back into a machine: how a run is known again after a crash, or read by those who look."""

from __future__ import annotations

from coordinator.decisions.machine import RoundMachine
from coordinator.record import snapshots
from coordinator.record.journal import Journal
from coordinator.record.ledger import fact_of


def replay(machine: RoundMachine, journal: Journal) -> float:
    """Feed a journal's facts back, from its latest snapshot on; returns the run clock's time of the last.

    A snapshot that cannot be used costs time only: everything is told again from the beginning."""
    ran_s, after = 0.0, 0
    snapshot = journal.latest_snapshot()
    state = snapshots.restore(snapshot) if snapshot is not None else None
    if snapshot is not None and state is not None:
        machine.restore(state)
        after = snapshot.serial - 1  # its own entry once more, for the time alone
    for entry in journal.entries(after):
        ran_s = entry.time_s
        if state is None or entry.serial > after + 1:
            machine.replay(fact_of(entry), entry.time_s)
    return ran_s
