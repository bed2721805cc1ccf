"""Claims about what is read from the kernel."""

from __future__ import annotations

import os
import time

from scripts.bench.processes import cpu_seconds, family, pss_gb
from scripts.bench.workers import Gate, WorkerProcesses


def idle(gate: Gate) -> None:
    while True:
        gate.wait()


def test_processor_time_of_this_process_agrees_with_its_own_clock() -> None:
    """Within a second, whatever else the machine does: both count the same work."""
    assert abs(cpu_seconds(os.getpid()) - time.process_time()) < 1.0


def test_memory_of_two_is_less_than_twice_that_of_one_when_they_share_pages() -> None:
    """A forked child that does nothing adds little: PSS divides what is shared."""
    alone = pss_gb([os.getpid()])
    with WorkerProcesses([idle]) as workers:
        both = pss_gb([os.getpid(), *workers.pids])
    assert alone > 0.01
    assert both < 1.5 * alone


def test_process_that_has_ended_counts_nothing() -> None:
    with WorkerProcesses([idle]) as workers:
        gone = workers.pids
    assert pss_gb(gone) == 0.0


def test_family_holds_children_and_their_children() -> None:
    def parent(gate: Gate) -> None:
        with WorkerProcesses([idle]):
            idle(gate)

    with WorkerProcesses([parent]) as workers:
        (child,) = workers.pids
        (grandchild,) = [pid for pid in family(child) if pid != child]
        assert {child, grandchild} <= set(family(os.getpid()))
