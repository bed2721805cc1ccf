"""Runs cases of one target episode by episode, each from its own seed, so that a run can stop and resume anywhere.

A case is one operation. Any exception ends its episode, is shortened and stored. Every case is bounded: processor time
by a timer, memory by the peak of the process.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from scripts.fuzz.findings import Finding, described, fault_of, shortened
from scripts.fuzz.targets import TARGETS, FuzzTarget, Operation
from scripts.run.progress_lines import ProgressLines

EPISODE_S = 20.0
"""Processor time after which an episode counts as stuck; normally it takes a fraction of a second."""

GROWTH_MIB = 128
"""How much a run's memory may grow after its first episodes."""

SETTLED = 20
"""Episodes between measurements of memory."""


class Stuck(Exception):
    """An episode took longer than allowed."""


@dataclass(kw_only=True)
class Tally:
    """Progress. cases, episodes: over all runs of this seed; findings: of this run."""

    target: str
    seed: int
    cases: int = 0
    episodes: int = 0
    seconds: float = 0.0
    grown_mib: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        rate = self.cases / self.seconds if self.seconds else 0.0
        found = "nothing found" if not self.findings else f"{len(self.findings)} FOUND"
        return (
            f"{self.target:13} {self.cases:>10,} cases  {self.seconds:8.1f} s  {rate:>9,.0f}/s  "
            f"+{self.grown_mib:.0f} MiB  {found}"
        )


def run(
    target: str,
    *,
    cases: int,
    seed: int,
    folder: Path,
    most_findings: int = 20,
    print_line: Callable[[str], None] = lambda _line: None,
) -> Tally:
    """Continue this target and seed until `cases` are done in total. say: receives progress lines."""
    rng = random.Random(0)  # noqa: S311 - reproducible, not secret
    subject = TARGETS[target](rng)
    tally = _begun(folder, target, seed)
    tally.findings += _known(folder, target, subject)
    before, progress = 0.0, ProgressLines(print_line)
    began, spent = time.process_time(), tally.seconds
    with _timer():
        while tally.cases < cases and len(tally.findings) < most_findings:
            progress.offer(lambda: f"{target:13} {tally.cases:>10,} of {cases:,} cases …")
            finding = _episode(subject, tally, rng)
            if finding is not None:
                _keep(finding, subject, tally, folder)
            tally.episodes += 1
            if tally.episodes % SETTLED == 0:
                tally.seconds = spent + time.process_time() - began
                _save(folder, tally)
                before = before or _held_mib()
                tally.grown_mib = _held_mib() - before
    tally.seconds = spent + time.process_time() - began
    _save(folder, tally)
    if tally.grown_mib > GROWTH_MIB:
        tally.findings.append(f"memory grew by {tally.grown_mib:.0f} MiB")
    return tally


def replay(path: Path) -> str:
    """Return what a stored finding raises now; empty if it is fixed."""
    finding = Finding.read(path)
    subject = TARGETS[finding.target](random.Random(0))  # noqa: S311
    return fault_of(subject, finding.start, finding.operations)


def _episode(subject: FuzzTarget, tally: Tally, rng: random.Random) -> Finding | None:
    rng.seed(f"{tally.seed}:{tally.target}:{tally.episodes}")
    done: list[Operation] = []
    signal.setitimer(signal.ITIMER_VIRTUAL, EPISODE_S)
    try:
        subject.begin(tally.episodes)
        for _ in range(subject.EPISODE):
            operation = subject.draw()
            done.append(operation)
            subject.apply(operation)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        return Finding(
            target=tally.target,
            seed=tally.seed,
            episode=tally.episodes,
            start=tally.episodes,
            operations=tuple(done),
            error=described(error),
        )
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        tally.cases += len(done)
    return None


def _keep(finding: Finding, subject: FuzzTarget, tally: Tally, folder: Path) -> None:
    short = shortened(subject, finding.start, finding.operations) if "Stuck" not in finding.error else ()
    kept = Finding(
        target=finding.target,
        seed=finding.seed,
        episode=finding.episode,
        start=finding.start,
        operations=short or finding.operations,
        error=finding.error,
    )
    path = kept.save(folder / "findings")
    tally.findings.append(f"{finding.error}  ({len(kept.operations)} operations: {path})")


def _known(folder: Path, target: str, subject: FuzzTarget) -> list[str]:
    """Return findings of earlier runs that still occur."""
    found = []
    for path in sorted((folder / "findings").glob(f"{target}-*.json")):
        finding = Finding.read(path)
        fault = fault_of(subject, finding.start, finding.operations)
        if fault:
            found.append(f"{fault}  (known: {path})")
    return found


def _begun(folder: Path, target: str, seed: int) -> Tally:
    path = _progress(folder, target, seed)
    tally = Tally(target=target, seed=seed)
    if path.is_file():
        done = json.loads(path.read_text(encoding="utf-8"))
        tally.cases, tally.episodes, tally.seconds = done["cases"], done["episodes"], done["seconds"]
    return tally


def _save(folder: Path, tally: Tally) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = {"cases": tally.cases, "episodes": tally.episodes, "seconds": round(tally.seconds, 1)}
    path = _progress(folder, tally.target, tally.seed)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(done) + "\n", encoding="utf-8")
    fresh.replace(path)


def _progress(folder: Path, target: str, seed: int) -> Path:
    return folder / f"{target}-{seed}.progress.json"


@contextmanager
def _timer() -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Stuck(f"after {EPISODE_S:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _held_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
