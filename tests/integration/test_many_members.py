"""The claim that one coordinator leads two hundred participants, hosted in few processes, to their inline models.

How time and memory grow with the members: `python -m tests.integration.test_many_members 20 50` prints a line each.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.run.settings import RunSettings
from tests.support.cohorts import DATA_OPTIONS, Bits, clients_of, model_bits, run_small, small_run

HOSTS = 4
ROUNDS = 5
SAMPLES_EACH = 80
"""Half of them train: 40, a little above the 32 that a coordinator asks for."""


def crowd(clients: int) -> RunSettings:
    options = {**DATA_OPTIONS, "samples": str(SAMPLES_EACH * clients)}
    return small_run("fedap", rounds=ROUNDS, cohort={"data_options": options, "clients": clients}, batch_size=20)


@dataclass
class Grown:
    """What a run of so many members took. CPU seconds and memory in KiB: the coordinator's, and its hosts' together.

    The coordinator is forked from a process that has imported everything; `born_kib` is what it had from there.
    """

    clients: int
    seconds: float = 0.0
    rounds: list[float] = field(default_factory=list)
    born_kib: int = 0
    coordinator_kib: int = 0
    hosts_kib: int = 0
    coordinator_cpu_s: float = 0.0
    hosts_cpu_s: float = 0.0
    bits: Bits = field(default_factory=dict)


def grown(root: Path, clients: int) -> Grown:
    """Run it in processes; memory is read at the end of every round, while all of them live."""
    found, pids, last = Grown(clients=clients), list[int](), [0.0]

    def started(all_of_them: Sequence[int]) -> None:
        pids.extend(all_of_them)
        found.born_kib = _kib(pids[0], "status", "VmHWM")
        last[0] = time.monotonic()

    def closed(_round_no: int, _accuracy: float | None) -> None:
        now = time.monotonic()
        found.rounds.append(now - last[0])
        last[0] = now
        found.coordinator_kib = max(found.coordinator_kib, _kib(pids[0], "status", "VmHWM"))
        found.hosts_kib = max(found.hosts_kib, sum(_kib(pid, "smaps_rollup", "Pss") for pid in pids[1:]))
        found.coordinator_cpu_s = max(found.coordinator_cpu_s, _cpu_s(pids[0]))
        found.hosts_cpu_s = max(found.hosts_cpu_s, sum(map(_cpu_s, pids[1:])))

    settings = crowd(clients)
    options = ProcessOptions(
        root=root, participants_per_process=-(-clients // HOSTS), on_started=started, on_round=closed
    )
    began = time.monotonic()
    folder = run_processes(settings, clients_of(settings), options)
    found.seconds = time.monotonic() - began
    found.bits = model_bits(folder)
    return found


def _kib(pid: int, file: str, name: str) -> int:
    """A line of /proc; 0 when the process has just ended."""
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


def _cpu_s(pid: int) -> float:
    """Seconds of user and system time so far; 0 when the process has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_two_hundred_hosted_participants_end_with_the_inline_engines_models(tmp_path: Path) -> None:
    settings = crowd(200)
    found = grown(tmp_path / "processes", 200)
    assert len(found.bits) == 200
    assert len(found.rounds) == ROUNDS
    assert found.bits == model_bits(run_small(tmp_path / "inline", settings))


def main() -> None:
    """Print how time and memory grow."""
    titles = ("members", "seconds", "s/round", "CPU s coord.", "CPU s hosts", "MiB at birth", "MiB coord.", "MiB hosts")
    print(" ".join(f"{title:>12}" for title in titles), flush=True)
    for clients in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as root:
            found = grown(Path(root), clients)
        rounds = sorted(found.rounds[1:])
        memory = [kib / 1024 for kib in (found.born_kib, found.coordinator_kib, found.hosts_kib)]
        cells = [found.seconds, rounds[len(rounds) // 2], found.coordinator_cpu_s, found.hosts_cpu_s, *memory]
        print(f"{clients:12d} " + " ".join(f"{cell:12.2f}" for cell in cells), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
