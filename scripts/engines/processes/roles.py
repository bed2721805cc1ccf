"""Runs a federation's roles: the functions behind `fedap-coordinator serve` and `fedap-participant join`.

They are called in forked children. Several participants may share a process: each has a thread for its connection, and
one thread trains for all of them, one after the other.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import structlog
import typer

from participant.config import JoinSettings
from participant.joining import Host, join
from participant.progress import configure_logging, log_finished_rounds
from scripts.engines.processes.children import guarded

_FILES_EACH = 16
"""File descriptors of one participant: its socket, monitor, wake-up pair, lock, record and a file being written."""


def run_coordinator(config: Path, *, called: int) -> int:
    """Run the coordinator of the run in that file, which exists once `called` reaches its end."""
    from coordinator.cli import serve  # here, while others make the file; only this process needs it

    os.read(called, 1)
    try:
        serve(config=config)
    except typer.Exit as end:
        return end.exit_code
    return 0


def run_participants(members: Sequence[JoinSettings]) -> int:
    """Run one or several participants. The first failure ends the process: the others would wait for it forever."""
    configure_logging(terminal=False)
    if len(members) == 1:
        return _join(members[0], None)
    _allow_files(_FILES_EACH * len(members))
    host = Host.of(len(members))
    with ThreadPoolExecutor(max_workers=len(members), thread_name_prefix="participant") as threads:
        for ended in as_completed([threads.submit(_guarded_join, one, host) for one in members]):
            if ended.result() != 0:
                os._exit(ended.result())
    host.close()
    return 0


def _guarded_join(settings: JoinSettings, host: Host) -> int:
    return guarded(lambda: _join(settings, host))


def _join(settings: JoinSettings, host: Host | None) -> int:
    end = join(settings, watch=log_finished_rounds, host=host)
    if end.code:
        structlog.get_logger().error("participant.ended", participant=settings.name, reason=end.reason)
    return end.code


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
