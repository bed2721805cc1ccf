"""Runs an exploration in this process, whose slices must already be small."""

from __future__ import annotations

import gc
import resource
import time

import structlog

from scripts.explore.scope import Scope
from scripts.explore.search import Result, Search
from scripts.explore.world import World
from scripts.inmemory.federation import MakeHome
from scripts.inmemory.home import MemoryHome
from scripts.inmemory.setup import Setup
from scripts.run.progress_lines import ProgressLines


def explored(scope: Scope, make_home: MakeHome = MemoryHome, *, progress: ProgressLines | None = None) -> Result:
    """Explore the scope. make_home: makes participants, if not the current ones."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # log lines are not examined
    gc.set_threshold(50_000, 20, 50)  # worlds are reference cycles, and there are many of them
    setup = Setup(
        members=scope.members,
        rounds=scope.rounds,
        continuous=scope.mode == "continuous",
        sliced=scope.sliced,
        algorithm=scope.algorithm,
    )
    clock = time.monotonic if scope.wall_clock else time.process_time
    search = Search(
        make=lambda: World(setup, scope.faults, make_home),
        until=clock() + 60.0 * scope.minutes,
        clock=clock,
        reduces=scope.reduces,
        has_room=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < scope.gigabytes * 1e9,
        progress=progress or ProgressLines(),
    )
    return search.wander(scope.seed) if scope.wander else search.exhaust()
