"""Runs the same job here and on other simulators, in turn, and prints seconds per round and their ratios.

`python benchmarks/peers/compare.py --flower VENV --pfl VENV` needs an environment for each peer
(`requirements-*.txt`) and this project's own for itself. Ours is FedAP with 32 neighbours and a personal model for each
of the 10,000 clients; theirs is FedAvg, one model for all. The first round of everybody is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SHARE = 0.05


def ours(folder: Path, clients: int, rounds: int, engine: str) -> list[float]:
    """Seconds of every round but the first: training, mixing and delivery."""
    out = folder / f"runs-{engine}"
    shutil.rmtree(out, ignore_errors=True)
    options = ["--data-option", "shape=1x28x28", "--data-option", "classes=11"]
    anchor = folder / "anchor.safetensors"  # a pooled one trains for longer than all these rounds
    if not anchor.exists():
        making = [sys.executable, "-m", "participant.cli", "init", "--data", "synthetic", "--model", "lenet5", *options]
        subprocess.run([*making, "--out", str(anchor)], cwd=REPOSITORY, check=True)  # noqa: S603 - our own command
    command = [sys.executable, "-m", "scripts.lab", "compare", "--data", "synthetic", "--partition", "iid", *options]
    command += ["--clients", str(clients), "--data-option", f"samples={68 * clients}", "--model", "lenet5"]
    command += ["--algorithms", "fedap:neighbours=32", "--anchor", str(anchor)]
    command += ["--participation", str(SHARE), "--rounds", str(rounds), "--memory", "2.5", "--engine", engine]
    command += ["--no-keep-models", "--batch-size", "64", "--workers", "2", "--out", str(out)]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    (lines,) = [path.read_text(encoding="utf-8").splitlines() for path in out.glob("*/rounds.jsonl")]
    spent = [json.loads(line)["seconds"] for line in lines]
    return [one["train"] + one["mix"] for one in spent[1:]]


def theirs(python: Path, program: str, folder: Path, clients: int, rounds: int) -> list[float]:
    """The same of a program that tells when a round has ended."""
    environment = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}:{HERE}",
        "PEER_CLIENTS": str(clients),
        "PEER_ROUNDS": str(rounds),
        "PEER_FOLDER": str(folder),
        "RAY_worker_niceness": "0",  # else every other process of the machine comes first
    }
    if not (folder / "x.npy").exists():
        making = [python, "-c", "import peer_job; peer_job.make_samples()"]
        subprocess.run(making, env=environment, check=True)  # noqa: S603 - our own program
    command = [python, str(HERE / program)]
    told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    lines = [line.split() for line in told.stdout.decode().splitlines() if line.startswith("round ")]
    ends = [float(line[2]) for line in lines][-rounds:]
    return [later - earlier for earlier, later in pairwise(ends)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--flower", type=Path, help="environment with Flower")
    asked.add_argument("--pfl", type=Path, help="environment with pfl")
    asked.add_argument("--ray", action="store_true", help="ours on Ray, too")
    asked.add_argument("--clients", type=int, default=10_000)
    asked.add_argument("--rounds", type=int, default=6)
    asked.add_argument("--passes", type=int, default=2)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, size = Path(name), (given.clients, given.rounds)
        contenders = {"ours, inline": lambda: ours(folder, *size, "inline")}
        if given.ray:
            contenders["ours, ray"] = lambda: ours(folder, *size, "ray")
        for peer, place in (("flower", given.flower), ("pfl", given.pfl)):
            if place is not None:
                python, program = place / "bin" / "python", f"{peer}_job.py"
                contenders[peer] = lambda python=python, program=program: theirs(python, program, folder, *size)
        found: dict[str, list[float]] = {contender: [] for contender in contenders}
        for number in range(given.passes):
            for contender, run in contenders.items():
                seconds = statistics.median(run())
                found[contender].append(seconds)
                print(f"pass {number + 1}: {contender}: {seconds:.2f} s a round", flush=True)
    for contender, seconds in found.items():
        ratios = [mine / other for mine, other in zip(found["ours, inline"], seconds, strict=True)]
        print(f"ours, inline / {contender}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
