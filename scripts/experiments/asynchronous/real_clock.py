"""Runs the study with real processes, real sockets and real time: one member is slow, rounds wait or do not.

The lab slows the member down: in the forked child, after each local training, the slow member waits until the round has
taken as long as on a slower device. The product does not know about it. What was delivered when, and how accurate it
was, is read from the coordinator's journal afterwards. Numbers depend on the machine and its load: they are
measurements, not repeatable results.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from coordinator.decisions import facts
from coordinator.decisions.scoring import scores_by_split
from coordinator.record.journal import facts_in
from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from participant.config import JoinSettings
from participant.joining import join
from participant.progress import configure_logging, log_finished_rounds
from participant.training.pace import Progress
from protocol.messages import Score
from scripts.engines.base import EngineOptions
from scripts.engines.inline import initial_file
from scripts.engines.pool import make_clients
from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.experiments.asynchronous.conditions import slow_member
from scripts.experiments.asynchronous.curves import Curve, ObservedRun
from scripts.experiments.asynchronous.study import AsyncStudy, heading_of, write_study
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.forked import run_in_child
from scripts.run.run_folder import write_text
from scripts.run.settings import RunSettings

CONDITION = "slow"
WAYS = ("barrier", "continuous")
RECORDS_PER_ROUND = 2


@dataclass(frozen=True, kw_only=True)
class Devices:
    """How long local training takes. least_s: minimum per round, for all; slow: the member `slower` times slower."""

    slow: str
    slower: float
    least_s: float

    def __post_init__(self) -> None:
        if not self.slower >= 1.0:
            raise InvalidInput("slower", self.slower, "at least 1, because no member can be made faster")
        if not self.least_s >= 0.0:
            raise InvalidInput("least_s", self.least_s, "seconds from 0")

    def wait_s(self, member: str, trained_s: float) -> float:
        """Return how long a member waits after training, to take as long as its device would."""
        wanted = max(trained_s, self.least_s) * (self.slower if member == self.slow else 1.0)
        return wanted - trained_s


class Stretched:
    """Observes a participant's training and blocks its thread at the end of each round."""

    def __init__(self, member: str, devices: Devices) -> None:
        self._member = member
        self._devices = devices
        self._round: int | None = None
        self._began = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.round_no != self._round:
            self._round, self._began = progress.round_no, time.monotonic()
        log_finished_rounds(progress)
        if progress.loss is not None:  # reported once, when the round is trained and saved
            threading.Event().wait(self._devices.wait_s(self._member, time.monotonic() - self._began))


def run_real_study(study: AsyncStudy, root: Path, *, least_s: float, console: Console) -> list[Curve]:
    """Run what is missing, one federation at a time, and write csv, figure and Markdown under `root`."""
    found: dict[tuple[str, str], list[ObservedRun]] = {}
    for run in study.runs:
        cohort = make_cohort(run.cohort, run.seed)
        slower = study.trouble.slower
        devices = Devices(slow=slow_member(cohort.names, run.seed), slower=slower, least_s=least_s)
        for way in WAYS:
            console.print(f"{run.label} seed {run.seed}, {way}, {devices.slow} slow …", soft_wrap=True)
            chosen = run.model_copy(update={"mode": way})
            place = root / "processes" / f"{slower:g} times {least_s:g} s"
            found.setdefault((run.label, way), []).append(run_real(chosen, cohort, devices, place))
    first = study.runs[0]
    shortest = min(float(run.times[-1]) for runs in found.values() for run in runs)
    step_s = shortest / first.rounds / RECORDS_PER_ROUND
    curves = [Curve.of(label, CONDITION, way, runs, step_s) for (label, way), runs in found.items()]
    name = re.sub(r"[/.:]", "_", f"asynchronous-processes-{first.cohort.data}-{study.identity}")
    how = f"real processes and sockets on one machine, a round of training takes {least_s:g} s or more"
    write_study(study, curves, heading_of(study, how), root / name, clock="real", console=console)
    return curves


def run_real(run: RunSettings, cohort: Cohort, devices: Devices, root: Path) -> ObservedRun:
    """Run one federation as processes, unless its record already exists."""

    def participate(members: Sequence[JoinSettings]) -> int:
        configure_logging(terminal=False)
        (settings,) = members
        return join(settings, watch=Stretched(settings.name, devices)).code

    folder = run_processes(run, cohort, ProcessOptions(root=root, keep_models=False, run_participants=participate))
    journal = facts_in(folder.path / "federation" / "coordinator")
    start = dict(zip(cohort.names, _start_accuracy(run, cohort, folder.path, root), strict=True))
    return watched_from(journal, start, slow=cohort.names.index(devices.slow))


def _start_accuracy(run: RunSettings, cohort: Cohort, folder: Path, root: Path) -> list[float]:
    """Return each client's accuracy with the initial model, measured in a child because this process forks again."""
    path = folder / "start.json"

    def work() -> None:
        start = initial_file(run, cohort, EngineOptions(root=root))
        clients = make_clients(
            cohort, cohort.clients, start=start, plan=run.local_plan(), device=run.device,
            buffers=[None] * len(cohort.clients),
        )  # fmt: skip
        write_text(path, json.dumps([client.evaluate("test").accuracy for client in clients]))

    if not path.exists():
        run_in_child(work)
    found: list[float] = json.loads(path.read_text(encoding="utf-8"))
    return found


def watched_from(journal: Sequence[tuple[facts.Fact, float]], start: Mapping[str, float], *, slow: int) -> ObservedRun:
    """Return all accuracies over time: a model counts from its training request on, though its score came later.

    start: by member, accuracy of the initial model. Time starts with the first request to train.
    """
    ordered: dict[tuple[str, int], float] = {}
    changes: list[tuple[float, str, float]] = []
    first = next(at for fact, at in journal if isinstance(fact, facts.RoundOpened))
    updates = 0
    for fact, at in journal:
        match fact:
            case facts.RoundOpened(round_no=round_no, members=members):
                ordered |= {(member, round_no): at for member in members}
            case facts.RowPlanned(member=member, round_no=round_no):
                ordered[member, round_no] = at
            case facts.UpdateAccepted(member=member, round_no=round_no, scores=scores):
                updates += 1
                changes += [(ordered[member, round_no], member, value) for value in _test_accuracy(scores)]
            case facts.Finished():
                ended = at
            case facts.GoodbyeAccepted(member=member, scores=scores):
                changes += [(ended, member, value) for value in _test_accuracy(scores)]
    return _series(sorted(changes), start, first=first, slow=slow, updates=updates)


def _test_accuracy(scores: Sequence[Score]) -> list[float]:
    score = scores_by_split(scores).get("test")
    return [] if score is None else [score.correct / score.samples]


def _series(
    changes: Sequence[tuple[float, str, float]], start: Mapping[str, float], *, first: float, slow: int, updates: int
) -> ObservedRun:
    times: list[float] = [0.0]
    names = list(start)
    rows: list[FloatArray] = [np.asarray(list(start.values()), dtype=np.float64)]
    for at, member, value in changes:
        row = rows[-1].copy()
        row[names.index(member)] = value
        times.append(at - first)
        rows.append(row)
    return ObservedRun(times=np.asarray(times, dtype=np.float64), accuracy=np.stack(rows), slow=slow, updates=updates)
