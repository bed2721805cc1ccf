"""Lists the parts of the bench, and runs one in a separate process, so that no part inherits another's threads.

A part is a module beside this one with `measure(scope) -> PartResult`; it is imported where it runs.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedap_core.errors import require_known
from scripts.bench.job import BenchScope
from scripts.bench.sheet import PartResult, from_json, to_json
from scripts.run.forked import ChildTask


@dataclass(frozen=True, kw_only=True)
class BenchPart:
    """about: what it compares; seconds: about how long it takes on two idle cores with three passes. alone: it runs
    only if named, because it takes long; it can be stopped and resumes when called again."""

    about: str
    seconds: int
    alone: bool = False


PARTS: dict[str, BenchPart] = {
    "round": BenchPart(about="a round of 20 clients: our engines against plain PyTorch loops", seconds=185),
    "startup": BenchPart(about="command to first training step, 20 participants, against a plain program", seconds=45),
    "memory": BenchPart(about="peak memory of 20 participants and a coordinator against a plain program", seconds=45),
    "aggregate": BenchPart(about="mixing against memory bandwidth", seconds=25),
    "wire": BenchPart(about="an update over loopback against a raw socket", seconds=75),
    "scale": BenchPart(about="rounds of 20 to 1,000 hosted participants against the line through 20", seconds=205),
    "step": BenchPart(about="a training step against a plain PyTorch step, per model", seconds=60),
    "recover": BenchPart(about="going on after SIGKILL with a long journal against a fresh start", seconds=45),
    "coordinator": BenchPart(about="the coordinator's processor time per round, plain and encrypted", seconds=60),
    "sealed": BenchPart(about="rounds, bytes and mixing of a sealed run against a clear one, and CKKS", seconds=150),
    "bytes": BenchPart(
        about="accuracy against megabytes per participant, all encodings, OrganAMNIST and HAR", seconds=1200, alone=True
    ),
}


def chosen(names: Sequence[str]) -> list[str]:
    """Return the requested parts in the table's order; if none is named, all but those that take long."""
    for name in names:
        require_known("part", name, PARTS)
    return [name for name in PARTS if name in names or (not names and not PARTS[name].alone)]


def run_part(name: str, scope: BenchScope) -> PartResult:
    """Measure one part in a child process."""
    began = time.perf_counter()
    module = f"scripts.bench.{name}"
    answer = ChildTask(lambda: to_json(importlib.import_module(module).measure(scope)), name=f"part {name}").wait()
    return replace(from_json(name, answer), seconds=round(time.perf_counter() - began, 1))
