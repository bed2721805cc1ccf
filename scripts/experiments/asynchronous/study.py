"""Runs the study: every algorithm under every condition and in every way; missing runs are made, results written.

Runs are deterministic and looked up by their identity, so a killed study resumes with its unfinished runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from fedap_core.errors import InvalidInput
from scripts.engines.base import EngineOptions
from scripts.engines.processes.children import Children
from scripts.experiments.asynchronous import curves, figure
from scripts.experiments.asynchronous.conditions import EPOCH_S, RECORDS_PER_EPOCH, Case, Trouble, case_of
from scripts.experiments.asynchronous.curves import Curve, ObservedRun
from scripts.run.clock_settings import AsyncFolder
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.run_folder import write_text
from scripts.run.settings import RunSettings, digest
from scripts.run.versions import versions

_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class AsyncStudy:
    """What is compared. runs: algorithms and seeds on one kind of clients; conditions and ways: names."""

    runs: tuple[RunSettings, ...]
    conditions: tuple[str, ...]
    ways: tuple[str, ...]
    trouble: Trouble

    def __post_init__(self) -> None:
        if "barrier" not in self.ways:
            raise InvalidInput(
                "ways", ",".join(self.ways), "barrier among them, because the others are compared with it"
            )

    @property
    def identity(self) -> str:
        """A digest that names the study's tables and figures."""
        return digest(
            [[run.identity, run.rounds] for run in self.runs]
            + [list(self.conditions), list(self.ways), self.trouble.slower, self.trouble.lost]
        )

    def cases(self, cohort: Cohort, seed: int) -> list[Case]:
        """Return the runs of one seed. If nobody is late a deadline changes nothing, so that case is left out."""
        return [
            case_of(run, cohort.names, condition, way, self.trouble)
            for run in self.runs
            if run.seed == seed
            for condition in self.conditions
            for way in self.ways
            if (condition, way) != ("even", "deadline")
        ]


def run_study(study: AsyncStudy, root: Path, *, jobs: int, console: Console) -> list[Curve]:
    """Run what is missing and write csv, figure and Markdown under `root`."""
    found: dict[tuple[str, str, str], list[ObservedRun]] = {}
    for seed in dict.fromkeys(run.seed for run in study.runs):
        cohort = make_cohort(study.runs[0].cohort, seed)
        cases = study.cases(cohort, seed)
        _run_missing(cases, cohort, root, jobs=jobs, console=console)
        for case in cases:
            key = case.settings.run.label, case.condition, case.way
            found.setdefault(key, []).append(_watched(root, case, cohort))
    step_s = EPOCH_S / RECORDS_PER_EPOCH
    found_curves = [Curve.of(*key, runs, step_s) for key, runs in found.items()]
    name = f"asynchronous-{study.runs[0].cohort.data}-{study.identity}"
    heading = heading_of(study, f"an epoch of a usual member takes {EPOCH_S:g} virtual seconds")
    write_study(study, found_curves, heading, root / re.sub(r"[/.:]", "_", name), clock="virtual", console=console)
    return found_curves


def heading_of(study: AsyncStudy, how: str) -> str:
    """Describe what was run in one line. how: the clock."""
    first, seeds = study.runs[0], len({run.seed for run in study.runs})
    plural = "" if seeds == 1 else "s"
    return (
        f"{first.cohort.data}, protocol {first.cohort.protocol_label}, {first.rounds} rounds of everybody, "
        f"{seeds} seed{plural}; {how}"
    )


def write_study(
    study: AsyncStudy, found_curves: Sequence[Curve], heading: str, path: Path, *, clock: str, console: Console
) -> None:
    """Write the study's results to files and print them. clock: the kind of seconds, virtual or real."""
    titles = {
        condition: study.trouble.title(condition) for condition in dict.fromkeys(c.condition for c in found_curves)
    }
    algorithms = list(dict.fromkeys(curve.algorithm for curve in found_curves))
    targets = {name: curves.target_of(found_curves, name) for name in algorithms}
    sentences = [
        curves.verdict(
            [c for c in found_curves if (c.algorithm, c.condition) == (name, condition)], name, title, targets[name]
        )
        for name in algorithms
        for condition, title in titles.items()
    ]
    table = curves.markdown(found_curves, targets, titles)
    verdicts = "".join(f"- {sentence}\n" for sentence in sentences)
    write_text(path.with_suffix(".csv"), curves.csv_text(found_curves))
    write_text(path.with_suffix(".md"), f"{heading}\n\n{verdicts}\n{table}\n{_provenance(study)}")
    figure.draw(found_curves, targets, titles, path, clock=clock)
    console.print(heading)
    console.print(curves.terminal_table(found_curves, targets))
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)
    console.print(f"Curves: {path.with_suffix('.png')}; points: {path.with_suffix('.csv')}", soft_wrap=True)


def _provenance(study: AsyncStudy) -> str:
    settings, versioned = study.runs[0].model_dump_json(), json.dumps(versions())
    return f"Settings of the first run: `{settings}`\n\nVersions: `{versioned}`\n"


def _run_missing(cases: Sequence[Case], cohort: Cohort, root: Path, *, jobs: int, console: Console) -> None:
    """Make the missing runs, up to `jobs` at a time, each in its own process."""
    described = cohort.described()
    for case in cases:
        AsyncFolder(root, case.settings).require_same_data(described)
    waiting = [case for case in cases if not AsyncFolder(root, case.settings).is_complete()]
    with Children(root / "logs") as children:
        while waiting or children.alive:
            while waiting and len(children.alive) < jobs:
                case = waiting.pop(0)
                children.fork(
                    AsyncFolder(root, case.settings).path.name,
                    lambda case=case: _work(case, cohort, root),  # type: ignore[misc]
                )
                console.print(f"{case.label} …", soft_wrap=True)
            children.wait(timeout_s=_WAIT_S)


def _work(case: Case, cohort: Cohort, root: Path) -> int:
    from scripts.engines.continuous import run_virtual

    run_virtual(case.settings, cohort, EngineOptions(root=root, keep_models=False))
    return 0


def _watched(root: Path, case: Case, cohort: Cohort) -> ObservedRun:
    records = AsyncFolder(root, case.settings).records()
    slow = next(iter(case.settings.clock.slower), None)
    return ObservedRun(
        times=np.array([record.clock for record in records], dtype=np.float64),
        accuracy=np.array([record.values("accuracy") for record in records], dtype=np.float64),
        slow=None if slow is None else cohort.names.index(slow),
        updates=records[-1].updates or 0,
    )
