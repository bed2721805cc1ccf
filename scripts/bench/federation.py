"""A federation of processes that is started, observed during its rounds, and killed: it never runs to its end.

It uses the same parts as `fedap-lab compare --engine processes`. Two options exist only here: encrypted lines on one
machine, and a coordinator whose journal is not durable, which serves only for comparison.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from coordinator.config import RunConfig, read_config
from coordinator.decisions.facts import RoundClosed, UpdateAccepted
from coordinator.observers.log_lines import configure_logs
from coordinator.record.journal import JOURNAL, Entry, SqliteJournal
from coordinator.runs import open_run
from coordinator.sections import SealingSection
from participant.config import JoinSettings
from participant.sealing.group_key import make_group_key, read_group_key
from participant.wire.keys import make_keys
from protocol.host.keys import generate_keys, write_key_file
from scripts.bench.job import BenchJob
from scripts.engines.base import EngineOptions
from scripts.engines.inline import initial_file
from scripts.engines.processes.children import Children
from scripts.engines.processes.configuring import Start, join_settings, write_config
from scripts.engines.processes.roles import run_participants
from scripts.engines.processes.shards import write_shards

PATIENCE_S = 300.0
"""Longest wait for a round that must close."""
GLANCE_S = 0.05
COORDINATOR_KEY, MEMBERS, GROUP_KEY = "coordinator.key", "members.txt", "group.key"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Layout of a federation. per_process: participants in each process; mode: barrier or continuous."""

    per_process: int = 1
    mode: str = "barrier"
    curve: bool = False
    durable: bool = True
    sealed: bool = False


class NonDurableJournal(SqliteJournal):
    """A journal that lets the system decide when data reach the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._db.execute("pragma synchronous=off")


class BenchFederation:
    """A context manager: all processes are started on entry and killed on exit."""

    def __init__(self, job: BenchJob, folder: Path, shape: Shape | None = None) -> None:
        self._job, self._shape = job, shape or Shape()
        self._home = folder
        self.run_folder = folder / "coordinator"
        self.members = job.cohort.names
        self._journal: SqliteJournal | None = None

    def __enter__(self) -> BenchFederation:
        self._home.mkdir(parents=True)
        settings = self._job.settings.model_copy(update={"mode": self._shape.mode})
        apart = EngineOptions(root=self._home, workers=2)  # model file in a child: this process still has to fork
        start = Start(initial=initial_file(settings, self._job.cohort, apart), anchor=None)
        shards = write_shards(self._home / "shards", self._job.cohort)
        write_config(self._home / "run.toml", settings, self._job.cohort, start, folder=self.run_folder)
        secrets = self._make_keys() if self._shape.curve else {}
        group: dict[str, object] = {"group_key": self._home / GROUP_KEY} if self._shape.sealed else {}
        if group:
            make_group_key(self._home / GROUP_KEY)
        self._children = Children(self._home / "logs").__enter__()
        try:
            endpoint = self._start_coordinator()
            joining = [
                join_settings(
                    settings, name, endpoint=endpoint, shard=shards[name], initial=start.initial, state=self.state(name)
                ).model_copy(update={**secrets.get(name, {}), **group})
                for name in self.members
            ]
            for at in range(0, len(joining), self._shape.per_process):
                self._fork(joining[at : at + self._shape.per_process])
            self._journal = SqliteJournal(self.run_folder / JOURNAL, read_only=True)
        except BaseException:
            self._children.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            self._journal.close()
        self._children.__exit__(kind, value, trace)

    @property
    def pids(self) -> list[int]:
        """Ids of all processes, the coordinator's first."""
        return [child.process.pid or 0 for child in self._children.alive]

    def state(self, name: str) -> Path:
        """Return a participant's own folder."""
        return self._home / "participants" / name

    def wait_for_rounds(self, rounds: int) -> list[float]:
        """Wait until so many rounds are closed (without barriers: as many updates accepted) and return their times on
        the run clock, in order. Raises if a process fails."""
        for _ in range(int(PATIENCE_S / GLANCE_S)):
            closed = self.closed_rounds()
            if len(closed) >= rounds:
                return closed
            self._children.wait(timeout_s=GLANCE_S)
        raise RuntimeError(f"{rounds} rounds did not close within {PATIENCE_S:.0f} s; see {self._home / 'logs'}")

    def closed_rounds(self) -> list[float]:
        """Return the times at which rounds closed; without barriers, after as many updates as there are members."""
        entries = self._entries()
        if self._shape.mode == "barrier":
            return [entry.time_s for entry in entries if entry.kind == RoundClosed.__name__]
        updates = [entry.time_s for entry in entries if entry.kind == UpdateAccepted.__name__]
        each = len(self.members)
        return updates[each - 1 :: each]

    def _entries(self) -> Sequence[Entry]:
        return [] if self._journal is None else list(self._journal.entries())

    def _fork(self, group: Sequence[JoinSettings]) -> None:
        self._children.fork(group[0].name, lambda: run_participants(group))

    def _start_coordinator(self) -> str:
        readable, writable = os.pipe()
        config, durable = self._config(), self._shape.durable
        self._children.fork("coordinator", lambda: _lead(config, durable=durable), stdout=writable)
        os.close(writable)
        line = b""
        while not line.endswith(b"\n"):
            self._children.wait(readable, timeout_s=PATIENCE_S)
            line += os.read(readable, 1)
        os.close(readable)
        return line.decode().split()[-1]

    def _config(self) -> RunConfig:
        config = read_config(self._home / "run.toml")
        if self._shape.sealed:
            sealing = SealingSection(group_key=read_group_key(self._home / GROUP_KEY).fingerprint)
            config = config.model_copy(update={"sealed": True, "sealing": sealing})
        if not self._shape.curve:
            return config
        network = config.network.model_copy(update={"secret_key": self._home / COORDINATOR_KEY})
        members = config.members.model_copy(update={"names": (), "keys": self._home / MEMBERS})
        return config.model_copy(update={"network": network, "members": members})

    def _make_keys(self) -> dict[str, dict[str, object]]:
        """Make keys for all parties, and return each participant's settings that refer to them."""
        pair = generate_keys()
        write_key_file(self._home / COORDINATOR_KEY, pair)
        made = {name: make_keys(self._home / "keys", name) for name in self.members}
        lines = [f"{name} {keys.public}\n" for name, keys in made.items()]
        (self._home / MEMBERS).write_text("".join(lines), encoding="utf-8")
        return {name: {"keys": keys.secret_file, "coordinator_key": pair.public} for name, keys in made.items()}


def _skip_fsync(fd: object) -> None:
    """Do nothing instead of fsync."""


def _lead(config: RunConfig, *, durable: bool) -> int:
    """Run a coordinator as `fedap-coordinator serve` does."""
    configure_logs(config.run)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (65_536 if hard == resource.RLIM_INFINITY else hard, hard))
    if not durable:
        os.fsync = _skip_fsync  # this process exists only to be measured: no other files are affected
    federation = open_run(config, open_journal=SqliteJournal if durable else NonDurableJournal)
    sys.stdout.write(f"ready: run {config.run} at {federation.endpoint}\n")
    sys.stdout.flush()
    return 1 if federation.coordinator.run().aborted else 0
