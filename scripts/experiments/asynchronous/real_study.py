"""The study with real processes: one member is slow, waiting for all against not waiting, measured in real time.

Numbers depend on the machine and its load: they are measurements, not repeatable results.
"""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from scripts.experiments.asynchronous.conditions import slow_member
from scripts.experiments.asynchronous.curves import Curve, ObservedRun
from scripts.experiments.asynchronous.real_clock import Devices, run_real
from scripts.experiments.asynchronous.study import AsyncStudy, heading_of, tell
from scripts.run.cohort import make_cohort

CONDITION = "slow"
WAYS = ("barrier", "continuous")
RECORDS_PER_ROUND = 2


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
    told = [Curve.of(label, CONDITION, way, runs, step_s) for (label, way), runs in found.items()]
    name = re.sub(r"[/.:]", "_", f"asynchronous-processes-{first.cohort.data}-{study.identity}")
    how = f"real processes and sockets on one machine, a round of training takes {least_s:g} s or more"
    tell(study, told, heading_of(study, how), root / name, clock="real", console=console)
    return told
