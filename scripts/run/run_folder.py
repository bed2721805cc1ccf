"""Writes and reads a run's folder: settings, one JSON line per round, W, the models.

A run folder is named by the run's identity. Models are saved periodically and at the end; a killed run resumes from the
last saved round, and a longer run with equal settings resumes from a shorter one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedap_core.errors import InvalidInput
from fedap_core.neighbours import NearestMembers
from fedap_core.strategies import Mixing
from scripts.run.clusters import MOST_DRAWN, clusters_of
from scripts.run.damage import intact
from scripts.run.mixing_record import AnyMixing, MixingRecord, read_mixing_record
from scripts.run.provenance import require_same_data
from scripts.run.records import Json, RoundRecord, complete_lines, read_rounds
from scripts.run.results import Summary, summarise
from scripts.run.settings import RunSettings

_NEAREST = ("places", "weights", "others", "givers", "similarity")
"""Arrays of `NearestMembers` in a run folder's `mixing.npz`."""


class RunFolder:
    """One run's files."""

    def __init__(self, root: Path, settings: RunSettings, *, identity: str = "") -> None:
        """identity: what ends the folder's name; by default that of the settings."""
        name = f"{settings.cohort.data}-{settings.algorithm.replace(':', '.')}-s{settings.seed}"
        self.path = root / f"{name}-{identity or settings.identity}".replace("/", "_")
        self.settings = settings
        self._rounds_path = self.path / "rounds.jsonl"
        self._settings_path = self.path / "settings.json"
        self._mixing_path = self.path / "mixing.json"
        self._nearest_path = self.path / "mixing.npz"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder for this process; others wait. The system releases the lock if the process dies."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def make_once(self, cohort: Json, work: Callable[[], None]) -> None:
        """Do the work of the run unless it is complete, or another process completes it in the meantime. cohort: what
        is to be written of its clients and data; rounds from other data are refused."""
        self.require_same_data(cohort)
        if not self.is_complete():
            with self.alone():
                if not self.is_complete():
                    work()

    def require_same_data(self, cohort: Json) -> None:
        """Refuse rounds in this folder that come from other data."""
        stored = self.stored_cohort()
        if stored is not None:
            require_same_data(self.settings.cohort.data, stored, cohort, self.path)

    def stored_cohort(self) -> Json | None:
        """Return what the folder says of its clients and data; None if no run was begun in it."""
        if not self._settings_path.exists():
            return None
        with intact(self._settings_path):
            return dict(self._described()["cohort"])

    def begin(self, versions: dict[str, str], cohort: Json, *, keep_models: bool) -> int:
        """Make the folder, drop records after the last saved models, and return the first round still to run."""
        self._describe(versions, cohort, keep_models=keep_models)
        saved = self.saved_round()
        kept = [line for line in complete_lines(self._rounds_path) if json.loads(line)["round"] <= saved]
        write_text(self._rounds_path, "".join(kept))
        return saved + 1

    def begin_anew(self, versions: dict[str, str], cohort: Json, *, keep_models: bool) -> None:
        """Make the folder and drop every round, for an engine that resumes from a record of its own."""
        self._describe(versions, cohort, keep_models=keep_models)
        shutil.rmtree(self.path / "models", ignore_errors=True)
        write_text(self._rounds_path, "")
        self._mixing_path.unlink(missing_ok=True)
        self._nearest_path.unlink(missing_ok=True)

    def _describe(self, versions: dict[str, str], cohort: Json, *, keep_models: bool) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        described = {
            "settings": self.settings.model_dump(mode="json"),
            "versions": versions,
            "cohort": cohort,
            "keep_models": keep_models,
        }
        write_text(self._settings_path, json.dumps(described, indent=1))

    def saved_round(self) -> int:
        """Return the last round whose models are on disk, or -1."""
        rounds = [int(path.name.removeprefix("round-")) for path in self.path.glob("models/round-*")]
        return max(rounds, default=-1)

    def models(self, round_no: int) -> Path:
        """Return the folder of a round's models."""
        return self.path / "models" / f"round-{round_no:05d}"

    @contextmanager
    def saving_models(self, round_no: int) -> Iterator[Path]:
        """Yield a folder for a round's models; once they are fully written, move it into place and drop older ones."""
        half = self.path / "half-written"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        yield half
        old = list(self.path.glob("models/round-*"))
        self.models(round_no).parent.mkdir(parents=True, exist_ok=True)
        half.replace(self.models(round_no))
        for path in old:
            shutil.rmtree(path)

    def drop_models(self) -> None:
        """Delete the models of a complete run, which stays complete: what is left is small enough to publish. Those of
        a longer run are kept, for it to resume from."""
        with self.alone():
            described = self._described()
            if self.is_complete() and described["settings"]["rounds"] == self.settings.rounds:
                write_text(self._settings_path, json.dumps({**described, "keep_models": False}, indent=1))
                shutil.rmtree(self.path / "models", ignore_errors=True)

    def append(self, record: RoundRecord) -> None:
        """Add one round."""
        with self._rounds_path.open("a", encoding="utf-8") as file:
            file.write(record.line())

    def records(self) -> list[RoundRecord]:
        """Return all rounds so far."""
        return read_rounds(self._rounds_path)

    def rounds(self) -> list[Json]:
        """Return all rounds so far as plain JSON."""
        return [json.loads(line) for line in complete_lines(self._rounds_path)]

    def write_mixing(self, mixing: Mixing, members: list[str], from_round: int) -> None:
        """Write W and what explains it."""
        described: Json = {
            "members": members,
            "from_round": from_round,
            "weights": mixing.weights.tolist(),
            "layers": mixing.layers,
            "distances": None if mixing.distances is None else mixing.distances.tolist(),
            "similarity": None if mixing.similarity is None else mixing.similarity.tolist(),
        }
        if len(members) > MOST_DRAWN and mixing.distances is not None:
            described["clusters"] = clusters_of(mixing.distances.sum(axis=0))
        write_text(self._mixing_path, json.dumps(described))

    def read_mixing(self) -> Mixing | None:
        """Return W exactly as it was written; None if the whole matrix was not written."""
        found = self.mixing_record()
        if not isinstance(found, MixingRecord):
            return None
        return Mixing(weights=found.weights, layers=found.layers, distances=found.distances)

    def mixing_record(self) -> AnyMixing | None:
        """Return W as figures and pages show it."""
        return read_mixing_record(self._mixing_path)

    def write_nearest(self, nearest: NearestMembers, members: list[str], from_round: int, *, neighbours: int) -> None:
        """Write a W of nearest members only: `mixing.npz` to resume from, and `mixing.json` with every row as it is
        when all updates can be used."""
        layers = {f"features_{number}": layer for number, layer in enumerate(nearest.features)}
        arrays = {name: getattr(nearest, name) for name in _NEAREST}
        half = self.path / "half-written-mixing.npz"
        np.savez(half, self_weight=nearest.self_weight, allow_pickle=False, **arrays, **layers)
        half.replace(self._nearest_path)
        described = {
            "members": members,
            "from_round": from_round,
            "self_weight": nearest.self_weight,
            "neighbours": nearest.places[:, :neighbours].tolist(),
            "neighbour_weights": nearest.shares(neighbours).tolist(),
            "similarity": nearest.similarity.tolist(),
            "clusters": clusters_of(np.hstack(nearest.features)),
        }
        write_text(self._mixing_path, json.dumps(described))

    def read_nearest(self) -> NearestMembers | None:
        """Return what `write_nearest` wrote, bit for bit; None if the whole W was written."""
        if not self._nearest_path.exists():
            return None
        with intact(self._nearest_path), np.load(self._nearest_path, allow_pickle=False) as found:
            count = sum(name.startswith("features_") for name in found.files)
            return NearestMembers(
                features=tuple(found[f"features_{number}"] for number in range(count)),
                self_weight=float(found["self_weight"]),
                **{name: found[name] for name in _NEAREST},
            )

    def members(self) -> list[str]:
        """Return the clients' names, in the order that all lists use."""
        return list(self._described()["cohort"]["clients"])

    def _described(self) -> Json:
        described: Json = json.loads(self._settings_path.read_text(encoding="utf-8"))
        return described

    def is_complete(self) -> bool:
        """Whether the requested number of rounds has been run and, if models are kept, the last ones saved."""
        last = max((record["round"] for record in self.rounds()), default=-1)
        if last + 1 < self.settings.rounds:
            return False
        return not self._described().get("keep_models", False) or self.saved_round() + 1 >= self.settings.rounds

    def summary(self) -> Summary:
        """Summarise the first `rounds` rounds."""
        asked, records = self.settings.rounds, self.records()
        evaluated = {record.number for record in records if record.scores}
        first = min((record.number for record in records), default=asked)
        missing = [r for r in range(first, asked) if self.settings.evaluates(r) and r not in evaluated]
        if evaluated and missing and self.settings.mode == "barrier":  # a longer run evaluated other rounds
            raise InvalidInput(
                "rounds", asked, f"rounds that {self.path} evaluated (round {missing[0] + 1} it did not)",
                "Use evaluate_every = 1 or another folder.",
            )  # fmt: skip
        return summarise(
            records,
            algorithm=self.settings.label,
            seed=self.settings.seed,
            rounds=asked,
            same_clients=self.settings.cohort.partition == "site",
        )


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
