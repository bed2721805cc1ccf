"""Measures how long a coordinator with a long journal takes to resume after SIGKILL, against an empty journal.

Real commands and real lines; participants that do not train. The clock runs from the command until every participant
has its order again: journal replayed, rows recomputed, all participants welcomed.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from coordinator.record.journal import JOURNAL
from participant.wire.line import Address, Context
from scripts.bench.figures import Measurements, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchScope
from scripts.bench.light_peers import LightPeer, hello_of, wait_until
from scripts.bench.sheet import PartResult
from scripts.bench.wire import lenet5
from scripts.run.forked import run_in_child

RUN = "recover"
READY = {True: "ready, long journal", False: "ready, empty journal"}
TOGETHER = {True: "everybody ordered, long journal", False: "everybody ordered, empty journal"}


def measure(scope: BenchScope) -> PartResult:
    """Measure after 249 rounds of 20 members: the latest snapshot is 49 rounds old, the longest replay possible."""
    members = [f"p{number:02d}" for number in range(scope.sized(20, 3))]
    rounds = scope.sized(249, 4)
    initial = scope.folder / "initial.safetensors"
    run_in_child(lambda: lenet5(repeats=1).write_initial(initial))
    long = scope.folder / "long"
    with CoordinatorProcess(initial, long, members) as first:
        for _ in range(rounds):
            first.go_round()
    size = sum(path.stat().st_size for path in (long / "run").glob(f"{JOURNAL}*"))  # including the write-ahead log
    fresh = (scope.folder / f"fresh-{number}" for number in itertools.count())
    ready: dict[bool, list[float]] = {True: [], False: []}

    def life(*, resumed: bool) -> Callable[[], float]:
        def one_pass() -> float:
            with CoordinatorProcess(initial, long if resumed else next(fresh), members) as one:
                ready[resumed].append(one.ready_s)
                return one.together_s

        return one_pass

    contenders = {TOGETHER[resumed]: life(resumed=resumed) for resumed in (True, False)}
    found = interleave(contenders, passes=scope.passes, unit="s")
    found |= {
        READY[key]: Measurements(name=READY[key], unit="s", values=tuple(values)) for key, values in ready.items()
    }
    what = f"after SIGKILL, {rounds} rounds of {len(members)} members"
    return PartResult(
        part="recover",
        findings=(
            ratio(f"{what}: until all hold an order / the same with an empty journal", *_pair(found, TOGETHER)),
            ratio(f"{what}: until it listens / the same with an empty journal", *_pair(found, READY)),
        ),
        series=tuple(found.values()),
        notes=(f"The journal is {size / 1e6:.1f} MB long.",),
    )


def _pair(found: dict[str, Measurements], names: dict[bool, str]) -> tuple[Measurements, Measurements]:
    return found[names[True]], found[names[False]]


class CoordinatorProcess:
    """A coordinator's process with all its participants; ended by SIGKILL."""

    def __init__(self, initial: Path, folder: Path, members: list[str]) -> None:
        came_back = folder.exists()
        folder.mkdir(exist_ok=True)
        config = folder / "run.toml"
        config.write_text(_toml(initial, folder / "run", members), encoding="utf-8")
        self._stack = ExitStack()
        context = Context()
        self._stack.callback(context.term)
        log = self._stack.enter_context((folder / "coordinator.log").open("ab"))
        began = time.monotonic()
        command = [sys.executable, "-m", "coordinator.cli", "serve", "--config", str(config)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - ours
        try:
            address = Address(endpoint=self._listen())
            self.ready_s = time.monotonic() - began
            hellos = [hello_of(initial, name, run=RUN if came_back else None) for name in members]
            self._peers = [
                self._stack.enter_context(LightPeer(context, address, hello, folder / f"{hello.name}.jsonl"))
                for hello in hellos
            ]
            self._await_orders()
        except BaseException:
            self._end()
            raise
        self.together_s = time.monotonic() - began

    def go_round(self) -> None:
        """Let every participant report the weights it received, and wait for the next orders."""
        for peer in self._peers:
            if peer.order is not None:
                peer.report(peer.order.weights)
        self._await_orders()

    def _await_orders(self) -> None:
        wait_until(self._peers, lambda: all(peer.order is not None for peer in self._peers))

    def _listen(self) -> str:
        """Return the endpoint from the coordinator's ready line."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.startswith("ready"):
            raise RuntimeError("the coordinator did not start; see coordinator.log")
        return line.split()[-1]

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._stack.close()

    def __enter__(self) -> CoordinatorProcess:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end()


def _toml(initial: Path, folder: Path, members: list[str]) -> str:
    lines = [
        f"run = {json.dumps(RUN)}",
        f"folder = {json.dumps(str(folder))}",
        f"initial = {json.dumps(str(initial))}",
        "rounds = 100000",
        "[algorithm]",
        'name = "fedbn"',
        "[members]",
        f"names = {json.dumps(members)}",
        f"at_least = {len(members)}",
        "[pace]",
        "heartbeat_s = 60.0",
        "dead_after_s = 600.0",
    ]
    return "\n".join(lines) + "\n"
