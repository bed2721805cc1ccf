"""Real `fedap-participant` processes on shards of a lab cohort, beside the inline run they must equal bit for bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedap_core.strategies import Measure, make_strategy
from participant.decisions.layouts import model_layout, shared_layout
from participant.record.model_file import read_spec
from protocol.messages import Compute, Plan
from scripts.engines.processes import shards
from scripts.run.cohort import Cohort
from scripts.run.settings import RunSettings
from tests.support import prefork
from tests.support.cohorts import Bits, clients_of, model_bits, run_small, tensor_bits


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An inline run: what it started from and its final models. anchor: its file; None where warm-up makes it."""

    settings: RunSettings
    cohort: Cohort
    initial: Path
    anchor: Path | None
    bits: Bits

    @property
    def names(self) -> list[str]:
        return [client.name for client in self.cohort.clients]


def run_reference(root: Path, settings: RunSettings) -> Reference:
    """Run a federation inline under `root`."""
    cohort = clients_of(settings)
    folder = run_small(root, settings, cohort=cohort)
    (initial,) = (root / "initial").glob("*.safetensors")
    anchors = list((root / "anchors").glob("*.safetensors"))
    pooled = settings.anchor.kind == "pooled" and settings.strategy().first_measure is not Measure.NONE
    return Reference(
        settings=settings,
        cohort=cohort,
        initial=initial,
        anchor=anchors[0] if pooled else None,
        bits=model_bits(folder),
    )


def plan_of(reference: Reference, **others: object) -> Plan:
    """The plan under which a networked run computes what the inline run did."""
    settings, spec = reference.settings, read_spec(reference.initial)
    strategy = make_strategy(settings.algorithm, settings.options)
    fields: dict[str, object] = {
        "strategy": settings.algorithm,
        "options": dict(settings.options),
        "mode": "barrier",
        "rounds": settings.rounds,
        "seed": settings.seed,
        "split": settings.cohort.protocol,
        "anchor": "none" if reference.anchor is None else "file",
        "encoding": "f32",
        "model_layout": model_layout(spec).digest,
        "shared_layout": shared_layout(spec, strategy).digest,
        "sgd": settings.sgd,
        "compute": Compute(),
    }
    return Plan(**{**fields, **others})  # type: ignore[arg-type]


def write_shard(path: Path, cohort: Cohort, name: str) -> None:
    """One client's samples and split, as the lab hands them to a participant."""
    (client,) = [one for one in cohort.clients if one.name == name]
    shards.write_shard(path, cohort, client)


@dataclass
class Player:
    """One participant: its command, its present process, and everything its lives wrote to stderr."""

    name: str
    folder: Path
    arguments: Sequence[str]
    process: prefork.Forked | None = None
    lives: int = 0

    @property
    def state(self) -> Path:
        return self.folder / self.name

    @property
    def personal(self) -> Path:
        return self.state / "personal.safetensors"

    def start(self) -> None:
        """A new life, its output appended to the old ones'."""
        with (self.folder / f"{self.name}.log").open("ab") as log:
            out = log.fileno()
            self.process = prefork.start(
                "participant.cli", ["join", *self.arguments], stdout=out, stderr=out, env=os.environ
            )
        self.lives += 1  # only now: late messages of the life before are not this one's

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            os.kill(self.process.pid, how)

    def ended(self) -> int | None:
        """The exit code of the present life, or None."""
        return None if self.process is None else self.process.poll()

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")

    def lines(self) -> list[Mapping[str, object]]:
        """The JSON lines of all lives."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def sent(self) -> list[Mapping[str, object]]:
        """What the player itself recorded as sent."""
        text = (self.state / "sent.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@contextmanager
def players(folder: Path, reference: Reference, endpoint: str, *more: str) -> Iterator[dict[str, Player]]:
    """One process for each client of the reference; none outlives the block."""
    made: dict[str, Player] = {}
    for name in reference.names:
        shard = folder / f"{name}.npz"
        write_shard(shard, reference.cohort, name)
        arguments = ["--coordinator", endpoint, "--data", str(shard), "--model-file", str(reference.initial)]
        arguments += ["--name", name, "--state", str(folder / name), *more]
        made[name] = Player(name=name, folder=folder, arguments=arguments)
    try:
        for player in made.values():
            player.start()
        yield made
    finally:
        for player in made.values():
            if player.process is not None and player.process.poll() is None:
                player.kill()
            if player.process is not None:
                player.process.wait()


def final_bits(made: Mapping[str, Player]) -> Bits:
    """The personal models the players ended with."""
    return {name: tensor_bits(player.personal) for name, player in made.items()}
