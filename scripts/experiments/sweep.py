"""Makes many runs, several at once in forked processes, skipping finished ones and reporting progress.

The parent does no tensor work, so every job forks from a clean process. A killed sweep loses only what its running jobs
had not saved; called again, it resumes from there.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fedap_core.errors import InvalidInput
from scripts.engines import find_engine, load_engine
from scripts.engines.base import EngineOptions
from scripts.experiments.stored_runs import require_present_data
from scripts.run.background_cohort import BackgroundCohort
from scripts.run.cohort import Cohort
from scripts.run.forked import FORK, end_with_parent, how_it_ended, signals_held, unwind_on_sigterm
from scripts.run.messages import Json, error_from_json, error_to_json
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from scripts.run.tracking import LabTracking

PRINT_EVERY_S = 10.0
"""Seconds between progress lines if the output is not a terminal."""

NEEDS_LESS = "If memory was short, --jobs 1 and a smaller --memory help. What was saved is kept: run it again to go on."


def share_cores(*, jobs: int, workers: int, engine: str, runs: int | None = None) -> tuple[int, int]:
    """Return (jobs, workers), as requested or, for 0, as the cores allow: first parallel runs, then workers inside a
    run, because a run in one process never waits for another worker. runs: number of runs, if known."""
    for field, asked in (("jobs", jobs), ("workers", workers)):
        if asked < 0:
            raise InvalidInput(field, asked, "at least 1, or 0: what the cores allow")
    cores = len(os.sched_getaffinity(0))
    jobs = jobs or (1 if find_engine(engine).fills_machine else cores)
    if runs is not None:
        jobs = min(jobs, runs)
    return jobs, workers or max(1, cores // jobs)


@dataclass(frozen=True, kw_only=True)
class SweepOptions(EngineOptions):
    """Options of the engine, and: jobs: runs at once, which share the memory; track: trackers to which every run is
    logged."""

    jobs: int = 1
    engine: str = "inline"
    track: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jobs < 1:
            raise InvalidInput("jobs", self.jobs, "at least 1")
        find_engine(self.engine)
        for place in (self.root, *self.root.parents):
            if place.exists() and not place.is_dir():
                raise InvalidInput("out", str(place), "a folder, or a path where one can be made")

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes // self.jobs


def sweep_options(
    root: Path,
    *,
    runs: int | None = None,
    jobs: int = 0,
    workers: int = 0,
    engine: str = "inline",
    **others: Any,  # noqa: ANN401 - fields of SweepOptions
) -> SweepOptions:
    """Return options under which runs share the cores as `share_cores` decides."""
    jobs, workers = share_cores(jobs=jobs, workers=workers, engine=engine, runs=runs)
    return SweepOptions(root=root, jobs=jobs, workers=workers, engine=engine, **others)


def run_sweep(runs: Sequence[RunSettings], options: SweepOptions, console: Console) -> list[RunFolder]:
    """Make the missing runs, in order, and return all folders in the order of `runs`."""
    for run in runs:
        find_engine(options.engine).require_able(run)
    try:
        options.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(options.root), "a folder that can be made", f"{error.strerror}.") from error
    folders = [RunFolder(options.root, run) for run in runs]
    missing = [run for run, folder in zip(runs, folders, strict=True) if not folder.is_complete()]
    require_present_data(folders, console, runs_missing=bool(missing))
    tracking = LabTracking(options.track, lambda sentence: console.print(sentence, soft_wrap=True))
    if missing:
        with _progress(console) as progress:
            _Jobs(missing, options, progress, console, tracking).run()
    for folder in folders:
        tracking.update(folder)
    tracking.close()
    return folders


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


class _Jobs:
    """Runs up to `jobs` children at a time, one run in each."""

    def __init__(
        self,
        runs: Sequence[RunSettings],
        options: SweepOptions,
        progress: Progress,
        console: Console,
        tracking: LabTracking,
    ) -> None:
        self._tracking = tracking
        self._waiting = list(runs)
        self._options = options
        self._progress = progress
        self._console = console
        self._total = progress.add_task("all runs", total=sum(run.rounds for run in runs))
        self._running: dict[Connection, tuple[ForkProcess, RunSettings, TaskID]] = {}
        self._cohorts: dict[str, Cohort] = {}
        self._began = self._printed_at = time.monotonic()

    def run(self) -> None:
        unwind_on_sigterm()
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._options.jobs:
                    self._start(self._waiting.pop(0))
                for ready in wait(list(self._running)):
                    if isinstance(ready, Connection):
                        self._listen(ready)
        finally:
            for process, _, _ in self._running.values():
                process.terminate()
            for process, _, _ in self._running.values():
                process.join()

    def _tell_plainly(self, run: RunSettings, rounds: int) -> None:
        """Print a line every PRINT_EVERY_S if there is no terminal to show progress bars."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._printed_at >= PRINT_EVERY_S:
            self._printed_at = now
            at = f"{run.label} seed {run.seed}: round {rounds} of {run.rounds}"
            self._console.print(f"{at}, {len(self._waiting)} runs waiting, {now - self._began:.0f} s", soft_wrap=True)

    def _start(self, run: RunSettings) -> None:
        cohort = self._cohort(run)
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(
            target=_job, args=(run, cohort, self._options, theirs, [*self._running, ours], os.getpid())
        )
        task = self._progress.add_task(f"  {run.label} seed {run.seed}", total=run.rounds)
        with signals_held():
            process.start()
            self._running[ours] = (process, run, task)
        theirs.close()

    def _cohort(self, run: RunSettings) -> Cohort:
        key = f"{run.seed} {run.cohort.model_dump_json()}"
        if key not in self._cohorts:
            making = BackgroundCohort(run.cohort, run.seed)
            try:
                _load(self._options.engine)  # while the cohort is being made
            except BaseException:
                making.abandon()
                raise
            self._cohorts = {key: making.take()}  # one at a time: a cohort holds all the data
        return self._cohorts[key]

    def _listen(self, connection: Connection) -> None:
        process, run, task = self._running[connection]
        try:
            message = json.loads(connection.recv_bytes())
        except EOFError:
            process.join()
            error = RuntimeError(f"Its process {how_it_ended(process.exitcode)}. {NEEDS_LESS}")
            message = {"error": error_to_json(error)}
        if "round" in message:
            self._progress.update(task, completed=message["round"] + 1)
            self._tell_plainly(run, message["round"] + 1)
            done = sum(t.completed for t in self._progress.tasks if t.id != self._total)
            self._progress.update(self._total, completed=done)
            self._tracking.update(RunFolder(self._options.root, run))
            return
        del self._running[connection]
        process.join()
        if "error" in message:
            raise error_from_json(message["error"], where=f"run {run.label} seed {run.seed}: ")
        if not self._console.is_terminal:
            mean = RunFolder(self._options.root, run).summary().last
            self._console.print(
                f"{run.label} seed {run.seed}: {100 * mean:.2f} % after {run.rounds} rounds, "
                f"protocol {run.cohort.protocol_label}"
            )


def _load(engine: str) -> None:
    """Load an engine, and torch with it, before the first fork, so that jobs and their processes share it.

    Loaded modules are never freed. Garbage collection over them would cost time now and, in a child, memory, because it
    touches every page.
    """
    gc.disable()
    try:
        load_engine(engine)
    finally:
        gc.enable()
    gc.freeze()


def _job(
    run: RunSettings,
    cohort: Cohort,
    options: SweepOptions,
    parent: Connection,
    inherited: Sequence[Connection],
    parent_id: int,
) -> None:
    unwind_on_sigterm()
    end_with_parent(parent_id)
    for connection in inherited:  # the parent's ends of the pipes: kept open here, they would hide its death
        connection.close()

    def send(message: Json) -> None:
        parent.send_bytes(json.dumps(message).encode())

    how = replace(options, on_round=lambda round_no, _accuracy: send({"round": round_no}))
    with suppress(BrokenPipeError):  # the parent is gone
        try:
            load_engine(options.engine)(run, cohort, how)
            send({"done": True})
        except BrokenPipeError:
            raise
        except (InvalidInput, OSError, RuntimeError) as error:
            send({"error": error_to_json(error)})
