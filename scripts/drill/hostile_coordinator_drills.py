"""Plays drills of the kind `hostile-coordinator`: participants meet a hostile coordinator.

There is no federation and nothing to compare: scenarios of the published list are played one after the other, and each
reports whether anything left, ran or changed that was not agreed to. The drill's seed selects the scenarios.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from fedap_core.randomness import generator
from scripts.drill.fork_server import ForkServer
from scripts.drill.hostile.coordinator import SCENARIOS
from scripts.drill.judge import DrillVerdict
from scripts.drill.record import DrillRecord
from scripts.drill.spec import Drill

KIND = "hostile-coordinator"
SCENARIOS_EACH = 6
PATIENCE_S = 300.0


def chosen(drill: Drill) -> list[str]:
    """Return the scenarios of a drill in playing order."""
    names = sorted(SCENARIOS)
    found = generator(drill.seed, purpose=f"drill {KIND}").choice(len(names), SCENARIOS_EACH, replace=False)
    return [names[int(number)] for number in found]


def play_hostile_coordinator(drill: Drill, *, fork_server: ForkServer, folder: Path) -> DrillRecord:
    """Play a drill's scenarios in a separate process."""
    folder.mkdir(parents=True)
    names, said = chosen(drill), folder / "said.json"
    began = time.monotonic()
    settings = {"names": names, "folder": str(folder), "said": str(said)}
    child = fork_server.start("meet hostile coordinator", settings, log=folder / "participant.log")
    codes: dict[int, int] = {}
    while child not in codes and time.monotonic() < began + PATIENCE_S:
        codes |= {ended.child: ended.code for ended in fork_server.ended(1.0)}
    fork_server.kill(child)
    found = json.loads(said.read_text(encoding="utf-8")) if said.exists() else {}
    verdict = verdict_of(names, found, codes.get(child))
    return DrillRecord(
        drill=drill,
        survived=verdict.survived,
        complaints=verdict.complaints,
        seconds=round(time.monotonic() - began, 2),
        struck=len(found),
        memory_growth_bytes=verdict.memory_growth_bytes,
        log_bytes=(folder / "participant.log").stat().st_size,
        files=0,
        folder=None if verdict.survived else str(folder),
        faults=tuple({"fault": "scenario", "name": name} for name in names),
    )


def verdict_of(names: list[str], found: dict[str, list[str]], code: int | None) -> DrillVerdict:
    """Judge a drill. found: faults by completed scenario; code: exit code of the scenarios' process."""
    complaints = [f"{name}: {fault}" for name, faults in found.items() for fault in faults]
    complaints += [f"{name} was not played to its end" for name in names if name not in found]
    if code != 0:
        complaints.append("the scenarios did not end" if code is None else f"the scenarios' process ended with {code}")
    return DrillVerdict(complaints=tuple(complaints), memory_growth_bytes=0, log_bytes=0)
