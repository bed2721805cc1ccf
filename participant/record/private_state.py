"""Store the local state of a run that must survive a crash, by (run, round); written atomically.

A folder holds `state/RUN/` (the run's plan, its start model, the latest finished round with its report, the final
model), `personal.safetensors` (the latest final model), `instance` (by which the coordinator recognises this folder's
process) and a lock, so that two processes cannot share it. A round is one file: the model after training and the report
about it. It is on disk before the report is sent, and only then is the previous one removed. A digest shows whether a
file is as it was written, and `latest` names the one that must exist: training never continues from files that the disk
has changed or lost. This module does not interpret the numbers.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

import torch

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.record.disk import Disk
from participant.record.model_file import read_model, write_model
from protocol.messages import Goodbye
from protocol.naming import name_of, slice_digest

PERSONAL = "personal.safetensors"
INSTANCE = "instance"
UPDATE = "update"
START = "start.safetensors"
"""The model that training of a run starts from."""
LATEST = "latest"
"""A file that holds the name of the newest round's file."""
_DIGEST = "digest"
_REPORT = "report"
_EXTRA = "extra/"


@dataclass(frozen=True, kw_only=True)
class SavedRound:
    """One finished step of a run.

    kind: update or goodbye. model: all tensors of the shared model afterwards. extras: other tensors that are reported
    or needed later, as `KIND/NAME`: statistics, tables, home (kept locally by the algorithm); `velocity` is the shared
    model's momentum. facts: the report's plain values, as JSON can hold them.
    """

    kind: str
    round_no: int
    phase: str
    model: State
    extras: State = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    def extras_of(self, kind: str) -> State:
        """The extras of one kind, by name."""
        start = kind + "/"
        return {name[len(start) :]: tensor for name, tensor in self.extras.items() if name.startswith(start)}


class DamagedState(InvalidInput):
    """A file of the run is missing or differs from what was written."""


class RunState:
    """The folder of one run."""

    def __init__(self, path: Path, spec: ModelSpec, disk: Disk) -> None:
        self.path = path
        self._spec = spec
        self._disk = disk

    @property
    def has_start(self) -> bool:
        path = self.path / START
        return self._disk.retry(path.name, path.is_file)

    def write_start(self, state: State) -> None:
        """Write the model that training starts from: every tensor."""
        path, notes = self.path / START, {_DIGEST: _digest(state, "")}
        self._disk.retry(path.name, lambda: write_model(path, self._spec, state, notes, private=True))

    def write_note(self, name: str, text: str) -> None:
        """Write a small text file of the run."""
        self._disk.retry(name, lambda: replace_text(self.path / name, text))

    def read_start(self) -> State:
        path = self.path / START
        return self._disk.retry(path.name, lambda: self._read_intact(path)[1])

    def write_latest(self, saved: SavedRound) -> None:
        """Make a finished step durable, then remove the previous one. At the end of a run the last trained model is
        kept beside the final one, in case the final one turns out to be worse."""
        name = f"round-{saved.round_no:07d}-{saved.kind}.safetensors"
        self._write(name, saved)
        self._disk.retry(LATEST, lambda: replace_text(self.path / LATEST, name + "\n", durable=False))
        self._disk.retry(name, lambda: self._remove_earlier(saved.kind))

    def _remove_earlier(self, kind: str) -> None:
        earlier = self._rounds()[:-1]
        for path in earlier if kind == UPDATE else earlier[:-1]:
            path.unlink()

    def last_trained(self) -> SavedRound | None:
        """The latest round of the participant's own training; None before the first."""
        return self._disk.retry(UPDATE, self._read_trained)

    def _read_trained(self) -> SavedRound | None:
        rounds = [path for path in self._rounds() if path.stem.endswith(f"-{UPDATE}")]
        return self._read(rounds[-1]) if rounds else None

    def latest(self) -> SavedRound | None:
        """The latest finished step; None before the first. DamagedState if a later one is missing."""
        return self._disk.retry(LATEST, self._read_latest)

    def _read_latest(self) -> SavedRound | None:
        rounds = self._rounds()
        pointer = self.path / LATEST
        name = pointer.read_text(encoding="ascii", errors="replace").strip() if pointer.is_file() else ""
        if name.startswith("round-") and (not rounds or rounds[-1].name < name):
            raise self._damaged(self.path / name, "it is missing")
        return self._read(rounds[-1]) if rounds else None

    def write_beside(self, saved: SavedRound) -> None:
        """Write a model trained beside the federation's, by its kind: to compare, and perhaps to keep."""
        self._write(f"{saved.kind}.safetensors", saved)

    def read_beside(self, kind: str) -> SavedRound | None:
        """Read the latest model of that kind."""
        path = self.path / f"{kind}.safetensors"
        return self._disk.retry(path.name, lambda: self._read(path) if path.is_file() else None)

    def _rounds(self) -> list[Path]:
        return sorted(self.path.glob("round-*.safetensors"))

    def _write(self, name: str, saved: SavedRound) -> None:
        described = {
            "kind": saved.kind,
            "round_no": saved.round_no,
            "phase": saved.phase,
            "facts": dict(saved.facts),
            "extras": list(saved.extras),  # a tensor file does not keep the order, which a report needs
        }
        tensors = {**saved.model, **{f"{_EXTRA}{key}": tensor for key, tensor in saved.extras.items()}}
        report = json.dumps(described)
        notes = {_REPORT: report, _DIGEST: _digest(tensors, report)}
        self._disk.retry(name, lambda: write_model(self.path / name, self._spec, tensors, notes, private=True))

    def _read(self, path: Path) -> SavedRound:
        spec, tensors, notes = self._read_intact(path)
        if spec.tensors != self._spec.tensors:
            raise InvalidInput("state", path, f"the state of a {self._spec.model}", "Use another --state folder.")
        try:
            described = json.loads(notes[_REPORT])
            return SavedRound(
                kind=described["kind"],
                round_no=described["round_no"],
                phase=described["phase"],
                model={name: tensor for name, tensor in tensors.items() if not name.startswith(_EXTRA)},
                extras={name: tensors[_EXTRA + name] for name in described["extras"]},
                facts=described["facts"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput("state", path, "a file of `fedap-participant join`", str(error)) from error

    def _read_intact(self, path: Path) -> tuple[ModelSpec, State, dict[str, str]]:
        """Read a file of the run and verify its digest; files of an earlier version have none."""
        try:
            spec, tensors, notes = read_model(path)
        except InvalidInput as error:
            raise self._damaged(path, str(error)) from error
        if notes.get(_DIGEST, "") not in ("", _digest(tensors, notes.get(_REPORT, ""))):
            raise self._damaged(path, "its contents have changed")
        return spec, tensors, notes

    def _damaged(self, path: Path, reason: str) -> DamagedState:
        fix = f"Restore {path.name} from a backup, or move {self.path} away and join again: training then restarts"
        return DamagedState("state", path, "the file as it was written", f"{reason}. {fix} from what the run delivers.")


class PrivateState:
    """A participant's folder, held by one process at a time. Use as a context manager."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.folder = folder
        self.disk = disk or Disk()
        self._lock: int | None = None

    def __enter__(self) -> PrivateState:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise InvalidInput(
                "state", str(self.folder), "a folder that no other participant uses", "Give each its own --state."
            ) from error
        self.disk.hold(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disk.release()
        if self._lock is not None:
            os.close(self._lock)

    def instance(self) -> str:
        """The token by which the coordinator distinguishes a restart of this participant from another process with its
        name: random, created once, readable only by its owner."""
        path = self.folder / INSTANCE
        found = path.read_text(encoding="ascii", errors="replace").strip() if path.is_file() else ""
        if not re.fullmatch(r"[0-9a-f]{32}", found):
            made = found = secrets.token_hex(16)
            self.disk.retry(INSTANCE, lambda: replace_text(path, made + "\n", mode=0o600))
        return found

    @property
    def sent_path(self) -> Path:
        return self.folder / "sent.jsonl"

    @property
    def personal_path(self) -> Path:
        return self.folder / PERSONAL

    def current_run(self) -> str | None:
        """The run that was last prepared here, if its start model still exists."""
        path = self.folder / "state" / "current"
        run = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""
        return run if run and (self.folder / "state" / run / START).is_file() else None

    def has_finished(self, run: str | None) -> bool:
        """Whether the last step of that run is stored here: its goodbye, with the final model."""
        saved = [] if run is None else sorted((self.folder / "state" / run).glob("round-*.safetensors"))
        return bool(saved) and saved[-1].stem.endswith(f"-{Goodbye.KIND}")

    def run(self, run: str, spec: ModelSpec) -> RunState:
        """Return the folder of that run, created if it is new."""
        path = self.folder / "state" / run
        for made in (path.parent, path):  # not `parents`: a folder that was moved away must not be made anew
            self.disk.retry(str(made), partial(made.mkdir, exist_ok=True))
        return RunState(path, spec, self.disk)

    def set_current(self, run: str) -> None:
        """Record which run a restarted process resumes; its start model must already be durable."""
        path = self.folder / "state" / "current"
        self.disk.retry(path.name, lambda: replace_text(path, run + "\n"))

    def write_personal(self, spec: ModelSpec, state: State, notes: dict[str, str]) -> None:
        """Write the final model: batch norm included, with its description and provenance."""
        path = self.personal_path
        self.disk.retry(path.name, lambda: write_model(path, spec, state, notes, private=True))


def _digest(tensors: State, report: str) -> str:
    """Digest of everything that a restarted process reads from a file."""
    digests = [slice_digest(report.encode())]
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        digests.append(slice_digest(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()))
        digests.append(slice_digest(tensor.reshape(-1).view(torch.uint8).numpy().data))
    return name_of(digests)


def replace_text(path: Path, text: str, *, mode: int = 0o666, durable: bool = True) -> None:
    """Write a small file atomically. mode: its permissions, as far as the umask allows. durable: whether it must
    survive a power cut."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # it might have another mode
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    part.replace(path)
