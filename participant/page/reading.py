"""Read a participant's state folder for its page: progress, scores of the saved models, the record of what was sent.

Read-only. Only the metadata of model files are read, so that no tensor is loaded and torch is not needed.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from fedap_core.choosing import (
    ALONE,
    FEDERATED,
    FINE_TUNED,
    OWN,
    Candidate,
    Choice,
    candidate_of,
    choose,
    instead_sentence,
)
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import notes_of
from fedap_core.similarity import unlike_sentence
from protocol.host.locks import is_locked

PROGRESS, ROUNDS = "progress.json", "rounds.jsonl"
"""The progress of the current round; a line for every finished round."""

_LEDGER_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One sent message. tensors: their names. digest: that of its bytes, or the name of the payload it belongs to."""

    time: str
    kind: str
    round: int | None
    size_bytes: int
    tensors: tuple[str, ...]
    digest: str


@dataclass(frozen=True, kw_only=True)
class LedgerTotal:
    """All messages of one kind."""

    kind: str
    messages: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class HomeOverview:
    """A participant at one moment. round: the one being trained, from 1. done: the share of it that is done. choice:
    None before any model was evaluated. scores: (round whose model it is, accuracy), where 0 is the initial model."""

    state: str
    run: str | None
    running: bool | None
    finished: bool
    round: int
    rounds: int
    done: float
    loss: float | None
    age_s: float | None
    scores: tuple[tuple[int, float], ...]
    candidates: tuple[Candidate, ...]
    choice: Choice | None
    alone_round: int | None
    federated_round: int | None
    instead: str
    """A sentence that the last federated model was not used; empty if it was or is still to come."""
    unlike: str
    """A sentence that no other member has similar data, if the coordinator reported that; otherwise empty."""
    totals: tuple[LedgerTotal, ...]
    ledger: tuple[LedgerLine, ...]


class HomeFollower:
    """Follows one state folder. Not thread-safe."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._ledger = SentLedger(state)

    def refresh(self) -> HomeOverview:
        """Return the participant's current state. InvalidInput if the folder is not a participant's."""
        if not (self._state / "sent.jsonl").is_file():
            raise InvalidInput("state", self._state, "the state folder of `fedap-participant join`")
        run = current_run(self._state)
        self._ledger.read()
        progress = _read_json(self._state / PROGRESS)
        progress = progress if progress.get("run") == run else {}
        saved = _saved(self._state, run)
        models = {name: one for name, one in _models(saved).items() if "facts" in one}
        candidates = tuple(candidate_of(name, one["facts"].get("scores", ())) for name, one in models.items())
        judged = [one for one in candidates if one.test is not None or one.validation is not None]
        return HomeOverview(
            state=self._state.name,
            run=run,
            running=is_locked(self._state / "lock"),
            finished=any(one.get("kind") == "goodbye" for one in saved.values()),
            round=int(progress.get("round_no", -1)) + 1,
            rounds=int(progress.get("rounds", 0)),
            done=_share(progress),
            loss=progress.get("loss"),
            age_s=max(time.time() - progress["written_s"], 0.0) if "written_s" in progress else None,
            scores=tuple(_scores(self._state / ROUNDS, run, saved)),
            candidates=tuple(judged),
            choice=choose(judged) if judged else None,
            alone_round=_round_of(models.get(ALONE)),
            federated_round=_judged_round(models.get(FEDERATED) or models.get(OWN)),
            instead=instead_sentence(_instead(saved)),
            unlike=_unlike(saved, _name_in(self._state, run)),
            totals=self._ledger.totals(),
            ledger=tuple(reversed(self._ledger.latest)),
        )


def current_run(state: Path) -> str | None:
    """The run that was last prepared in a state folder."""
    with suppress(OSError):
        return (state / "state" / "current").read_text(encoding="utf-8", errors="replace").strip() or None
    return None


def _share(progress: Mapping[str, Any]) -> float:
    """The trained share of the current round, from 0 to 1."""
    whole = progress.get("epochs", 1) * progress.get("batches", 1)
    done = progress.get("epoch", 0) * progress.get("batches", 1) + progress.get("batch", 0)
    return min(done / whole, 1.0) if whole else 0.0


def _saved(state: Path, run: str | None) -> dict[str, dict[str, Any]]:
    """Read the report of every saved model of the run, by file name; a file that is being replaced is left out."""
    found: dict[str, dict[str, Any]] = {}
    if run is None:
        return found
    for path in sorted((state / "state" / run).glob("*.safetensors")):
        with suppress(OSError, SafetensorError, ValueError), safe_open(path, framework="np") as file:
            notes = notes_of(file.metadata() or {})
            if "report" in notes:
                found[path.stem] = json.loads(notes["report"])
    return found


def _models(saved: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Map each model to the saved step with its scores: the latest step has those of the federation's model, or of the
    one kept instead."""
    steps = [name for name in saved if name.startswith("round-")]
    found = {OWN if _instead(saved) else FEDERATED: saved[steps[-1]]} if steps else {}
    return found | {name: saved[name] for name in (FINE_TUNED, ALONE) if name in saved}


def _round_of(step: Mapping[str, Any] | None) -> int | None:
    return None if step is None else int(step["round_no"]) + 1


def _judged_round(step: Mapping[str, Any] | None) -> int | None:
    """The round whose model a step evaluates: an update, like a goodbye, evaluates the model it was sent."""
    return None if step is None else int(step["round_no"])


def _name_in(state: Path, run: str | None) -> str:
    """The participant's name in the run, from the agreed terms."""
    return "" if run is None else str(_read_json(state / "state" / run / "agreement.json").get("participant", ""))


def _instead(saved: Mapping[str, dict[str, Any]]) -> str:
    """Which model is kept instead of the last delivery, and why; empty if that was used or is still to come."""
    return next((one["facts"].get("instead", "") for one in saved.values() if one.get("kind") == "goodbye"), "")


def _unlike(saved: Mapping[str, dict[str, Any]], name: str) -> str:
    """The sentence from the last order's similarity, which is saved with the goodbye."""
    for step in saved.values():
        if step.get("kind") == "goodbye":
            facts = step["facts"]
            return unlike_sentence(facts.get("similarity"), dict(facts.get("mixed_from") or {}).get(name, 0.0))
    return ""


def _scores(path: Path, run: str | None, saved: Mapping[str, dict[str, Any]]) -> Iterator[tuple[int, float]]:
    """Yield the recorded scores by round; a round that was trained again counts once. The goodbye has the scores of the
    last model."""
    found: dict[int, float] = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                one = json.loads(line)
                if one["run"] == run and one["accuracy"] is not None:
                    found[int(one["round_no"])] = float(one["accuracy"])
    for step in saved.values():
        if step.get("kind") == "goodbye" and not _instead(saved):
            last = candidate_of(FEDERATED, step["facts"].get("scores", ())).test
            if last is not None:
                found[int(step["round_no"])] = last.accuracy
    yield from sorted(found.items())


def _read_json(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


class SentLedger:
    """The record of everything sent, read as it grows: totals over all of it, and the latest lines."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._offset = 0
        self._inode = 0
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.latest: deque[LedgerLine] = deque(maxlen=_LEDGER_SHOWN)
        for path in sorted(state.glob("sent-*.jsonl")):  # rotated, and complete
            self._take(path, 0)

    def read(self) -> None:
        """Read the appended lines; a file that was rotated in the meantime is read to its end first."""
        path = self._state / "sent.jsonl"
        with suppress(FileNotFoundError):
            inode = path.stat().st_ino
            if self._inode and inode != self._inode:
                aside = [one for one in self._state.glob("sent-*.jsonl") if one.stat().st_ino == self._inode]
                for one in aside:
                    self._take(one, self._offset)
                self._offset = 0
            self._inode = inode
            self._offset = self._take(path, self._offset)

    def _take(self, path: Path, offset: int) -> int:
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                offset += len(line)
                with suppress(ValueError, KeyError, TypeError):
                    self._note(json.loads(line))
        return offset

    def _note(self, line: Mapping[str, Any]) -> None:
        count = self._counts[line["kind"]]
        count[0] += 1
        count[1] += line["bytes"]
        self.latest.append(
            LedgerLine(
                time=line["time"],
                kind=line["kind"],
                round=line.get("round"),
                size_bytes=line["bytes"],
                tensors=tuple(line.get("names", ())),
                digest=str(line.get("hash") or line.get("transfer") or ""),
            )
        )

    def totals(self) -> tuple[LedgerTotal, ...]:
        """Return the totals by kind, most bytes first."""
        ordered = sorted(self._counts.items(), key=lambda one: -one[1][1])
        return tuple(LedgerTotal(kind=kind, messages=number, size_bytes=size) for kind, (number, size) in ordered)
