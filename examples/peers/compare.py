"""Run the same job here and on other simulators, in turn, and print seconds per round and their ratios.

`python examples/peers/compare.py --flower VENV --pfl VENV` needs an environment for each peer
(`requirements-*.txt`) and runs in this project's own. Ours is FedAP with 32 neighbours and a personal model for each
of the 10,000 clients; theirs is FedAvg, one model for all. `--alone` adds ours without exchange: the cost of training
the chosen clients. No simulator evaluates, and the first round is left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from scripts.bench.processes import cpu_seconds, family

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SHARE = 0.05
ENDS = 6
"""Rounds at the start and at the end of a longer run that are also reported separately."""
NEVER = "100000"
PATIENCE_S = 1800.0

Cost = tuple[float, float]
"""Wall and processor seconds of a round, all processes together."""


def watched(command: list[str], rounds: int, done: Callable[[], int], environment: dict[str, str]) -> list[Cost]:
    """Return the cost of each round except the first; end the command after the last. done: rounds so far."""
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command, cwd=REPOSITORY, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    marks: list[Cost] = []
    until = time.monotonic() + PATIENCE_S
    try:
        while len(marks) < rounds:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"no progress after {len(marks)} rounds: {' '.join(command)}")
            if done() > len(marks):
                marks.append((time.monotonic(), tree_cpu(process.pid)))
            time.sleep(0.05)
    finally:
        everybody = family(process.pid)
        for pid in reversed(everybody):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    return [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in pairwise(marks)]


def tree_cpu(pid: int) -> float:
    total = 0.0
    for one in family(pid):
        with suppress(OSError):
            total += cpu_seconds(one)
    return total


def ours(folder: Path, clients: int, rounds: int, engine: str, algorithm: str = "fedap:neighbours=32") -> list[Cost]:
    options = ["--data-option", "shape=1x28x28", "--data-option", "classes=11"]
    anchor = folder / "anchor.safetensors"  # a pooled anchor would train longer than all these rounds
    if not anchor.exists():
        making = [sys.executable, "-m", "participant.cli", "init", "--data", "synthetic", "--model", "lenet5", *options]
        subprocess.run([*making, "--out", str(anchor)], cwd=REPOSITORY, check=True)  # noqa: S603 - our own command
    out = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, "-m", "scripts.lab", "compare", "--data", "synthetic", "--partition", "iid", *options]
    command += ["--clients", str(clients), "--data-option", f"samples={68 * clients}", "--model", "lenet5"]
    command += ["--algorithms", algorithm, "--anchor", str(anchor), "--engine", engine, "--workers", "2"]
    command += ["--participation", str(SHARE), "--rounds", NEVER, "--evaluate-every", NEVER, "--memory", "2.5"]
    command += ["--no-keep-models", "--batch-size", "64", "--out", str(out)]

    def done() -> int:
        return sum(path.read_bytes().count(b"\n") for path in out.glob("*/rounds.jsonl"))

    return watched(command, rounds, done, dict(os.environ))


def theirs(python: Path, program: str, folder: Path, clients: int, rounds: int) -> list[Cost]:
    told = folder / f"{program}.txt"
    environment = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}:{HERE}",
        "PEER_CLIENTS": str(clients),
        "PEER_ROUNDS": str(rounds + 1),
        "PEER_FOLDER": str(folder),
        "PEER_TOLD": str(told),
        "RAY_worker_niceness": "0",  # otherwise all other processes on the machine have priority
    }
    if not (folder / "x.npy").exists():
        making = [str(python), "-c", "import peer_job; peer_job.make_samples()"]
        subprocess.run(making, env=environment, check=True)  # noqa: S603 - our own program
    told.write_bytes(b"")
    return watched([str(python), str(HERE / program)], rounds, lambda: told.read_bytes().count(b"\n"), environment)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--flower", type=Path, help="environment with Flower")
    asked.add_argument("--pfl", type=Path, help="environment with pfl")
    asked.add_argument("--ray", action="store_true", help="ours on Ray, too")
    asked.add_argument("--alone", action="store_true", help="ours without exchange, too: training alone")
    asked.add_argument("--clients", type=int, default=10_000)
    asked.add_argument("--rounds", type=int, default=6)
    asked.add_argument("--passes", type=int, default=2)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, size = Path(name), (given.clients, given.rounds)
        contenders = {"ours, inline": lambda: ours(folder, *size, "inline")}
        if given.alone:
            contenders["ours, training alone"] = lambda: ours(folder, *size, "inline", "base")
        if given.ray:
            contenders["ours, ray"] = lambda: ours(folder, *size, "ray")
        for peer, place in (("flower", given.flower), ("pfl", given.pfl)):
            if place is not None:
                python, program = place / "bin" / "python", f"{peer}_job.py"
                contenders[peer] = lambda python=python, program=program: theirs(python, program, folder, *size)
        found: dict[str, list[Cost]] = {contender: [] for contender in contenders}
        for number in range(given.passes):
            for contender, run in contenders.items():
                costs = run()
                wall, cpu = (statistics.median(cost[at] for cost in costs) for at in (0, 1))
                found[contender].append((wall, cpu))
                print(f"pass {number + 1}: {contender}: {wall:.2f} s, CPU {cpu:.2f} s a round", flush=True)
                if len(costs) >= 2 * ENDS:  # ours takes longer for clients that have not taken part before
                    first, last = (
                        statistics.median(cost[0] for cost in part) for part in (costs[:ENDS], costs[-ENDS:])
                    )
                    print(f"        first {ENDS} rounds {first:.2f} s, last {ENDS} {last:.2f} s", flush=True)
    for contender, costs in found.items():
        for at, what in ((0, "time"), (1, "CPU")):
            ratios = [mine[at] / other[at] for mine, other in zip(found["ours, inline"], costs, strict=True)]
            print(f"{what}, ours, inline / {contender}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
