"""Lists the parts of the bench, and runs one in a separate process, so that no part inherits another's threads.

A part is a module beside this one with `measure(scope) -> PartResult`; it is imported where it runs.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from fedap_core.errors import InvalidInput, require_known
from scripts.bench.job import BenchScope
from scripts.bench.sheet import PartResult, from_json, to_json
from scripts.run.forked import FORK, signals_held, unwind_on_sigterm
from scripts.run.messages import error_from_json, error_to_json


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
    "scale": BenchPart(about="rounds of 20 to 1,000 hosted participants against the line through 20", seconds=180),
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
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_measure, args=(name, scope, theirs))
    began = time.perf_counter()
    try:
        with signals_held():  # a deferred signal is raised at the end of this block
            child.start()
        theirs.close()
        answer = json.loads(ours.recv_bytes())
        child.join()
    except EOFError as error:
        child.join()
        raise RuntimeError(f"part {name} ended with code {child.exitcode}") from error
    finally:
        if child.is_alive():  # interrupted: the child must not continue alone
            child.terminate()
        if child.pid is not None:
            child.join()
    if "error" in answer:
        raise error_from_json(answer["error"], where=f"part {name}: ")
    return replace(from_json(name, answer), seconds=round(time.perf_counter() - began, 1))


def _measure(name: str, scope: BenchScope, parent: Connection) -> None:
    unwind_on_sigterm()
    module = importlib.import_module(f"scripts.bench.{name}")
    try:
        result: PartResult = module.measure(scope)
        answer = to_json(result)
    except (InvalidInput, OSError) as error:
        answer = {"error": error_to_json(error)}
    parent.send_bytes(json.dumps(answer).encode())
