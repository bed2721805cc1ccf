"""Plays several drills in parallel: worker processes, each with its own fork server, get one drill at a time.

Workers are forked before any of them has a thread. Each undisturbed run is made once per folder and shared.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

from scripts.drill.fork_server import ForkServer
from scripts.drill.hostile_coordinator_drills import KIND as HOSTILE_COORDINATOR
from scripts.drill.hostile_coordinator_drills import play_hostile_coordinator
from scripts.drill.judge import DrillOutcome, judge
from scripts.drill.play import play, write_model_file
from scripts.drill.record import (
    DrillRecord,
    decode,
    encode,
    failed_record,
    outcome_from_json,
    outcome_to_json,
    record_of,
)
from scripts.drill.schedule import KINDS, faults_of
from scripts.drill.spec import Drill
from scripts.run.forked import FORK, end_with_parent, signals_held, unwind_on_sigterm
from scripts.run.versions import versions


class DrillRunner:
    """Plays drills one after the other in a folder."""

    def __init__(self, fork_server: ForkServer, root: Path) -> None:
        self._fork_server = fork_server
        self._root = root

    def play(self, drill: Drill) -> DrillRecord:
        """Play one drill and compare it with its undisturbed run. A passed drill leaves no files; a failed one does."""
        folder = self._root / "drills" / drill.name
        shutil.rmtree(folder, ignore_errors=True)
        if drill.kind == HOSTILE_COORDINATOR:
            record = play_hostile_coordinator(drill, fork_server=self._fork_server, folder=folder)
            if record.survived:
                shutil.rmtree(folder)
            return record
        initial, undisturbed = self._undisturbed(drill)
        faults = faults_of(drill)
        outcome = play(
            drill, faults, fork_server=self._fork_server, folder=folder, initial=initial, undisturbed=undisturbed
        )
        verdict = judge(outcome, undisturbed, same_bits=drill.mode == "barrier" and KINDS[drill.kind].same_bits)
        if verdict.survived:
            shutil.rmtree(folder, ignore_errors=True)
        return record_of(drill, faults, outcome, verdict, folder=None if verdict.survived else folder)

    def _undisturbed(self, drill: Drill) -> tuple[Path, DrillOutcome]:
        """Return the initial model and the outcome of the same federation without faults."""
        kind = KINDS[drill.kind]
        way = "apart" if kind.uses_namespaces else "proxied" if kind.uses_proxy else "direct"
        name = f"{drill.setting}-{way}"
        place = self._root / "quiet"
        place.mkdir(parents=True, exist_ok=True)
        kept = place / f"{name}.json"
        with _alone(place / f"{name}.lock"):
            initial = write_model_file(self._fork_server, place, drill)
            if kept.exists():
                stored = json.loads(kept.read_text(encoding="utf-8"))
                if stored["versions"] == versions():
                    return initial, outcome_from_json(stored["outcome"])
            folder = place / name
            shutil.rmtree(folder, ignore_errors=True)
            outcome = play(drill, (), fork_server=self._fork_server, folder=folder, initial=initial, undisturbed=None)
            if complaints := judge(outcome, outcome, same_bits=True).complaints:
                raise RuntimeError(f"the undisturbed run failed: {'; '.join(complaints)}; see {folder}")
            shutil.rmtree(folder)
            half = kept.with_suffix(".half")
            half.write_text(json.dumps({"versions": versions(), "outcome": outcome_to_json(outcome)}), encoding="utf-8")
            half.replace(kept)
        return initial, outcome


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let in one worker at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _work(line: Connection, root: Path, parent: int) -> None:
    """Run a worker: drills in, records out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    unwind_on_sigterm()
    end_with_parent(parent)
    with ForkServer() as fork_server:
        runner = DrillRunner(fork_server, root)
        while True:
            try:
                drill = Drill(**json.loads(line.recv_bytes()))
            except EOFError:
                return
            try:
                record = runner.play(drill)
            except Exception as error:  # noqa: BLE001 - one drill that cannot be played must not end the series
                traceback.print_exc()
                record = failed_record(drill, f"could not be run: {error}")
            line.send_bytes(encode(record).encode())


class Workers:
    """The processes. Use as a context manager."""

    def __init__(self, jobs: int, root: Path) -> None:
        self._lines: list[Connection] = []
        self._processes: list[ForkProcess] = []
        for _ in range(jobs):
            ours, theirs = FORK.Pipe()
            process = FORK.Process(target=_work, args=(theirs, root, os.getpid()))
            with signals_held():
                process.start()
                self._processes.append(process)
            theirs.close()
            self._lines.append(ours)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def run(self, drills: Iterator[Drill], done: Callable[[DrillRecord], None]) -> None:
        """Play all drills; a new one is started whenever a worker is free."""
        busy: dict[Connection, Drill] = {}
        free = list(self._lines)
        while True:
            while free and (drill := next(drills, None)) is not None:
                line = free.pop()
                line.send_bytes(json.dumps(asdict(drill)).encode())
                busy[line] = drill
            if not busy:
                return
            for ready in wait(list(busy)):
                if not isinstance(ready, Connection):
                    continue
                drill = busy.pop(ready)
                try:
                    record = decode(ready.recv_bytes().decode())
                except EOFError as error:
                    raise RuntimeError(f"a worker ended in the middle of {drill.replay}") from error
                done(record)
                free.append(ready)
