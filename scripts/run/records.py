"""Records of a run's results: how good each client's model was in each round, and under which W.

One record type per round, written to and read from one line of `rounds.jsonl`: engines fill it, folders store it, and
tables, figures, reports and the Python API read it. Whether a run came from a run folder or from a coordinator's
journal is not visible here. What a source does not know is None or empty, never guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fedap_core.choosing import HitCount
from fedap_core.errors import InvalidInput
from fedap_core.metrics import QUALITIES, Evaluation, balanced_accuracy
from protocol.messages import Score
from scripts.run.damage import intact
from scripts.run.mixing_record import AnyMixing

Counts = tuple[tuple[int, ...], ...]
Json = dict[str, Any]

_SPLITS = ("validation", "test")
_COLUMNS = (*QUALITIES, "loss", "confusion")
"""What a line has for every client beside accuracy and samples, if known."""


@dataclass(frozen=True, kw_only=True)
class ClientScore(HitCount):
    """One model on one client's samples. confusion: rows are the truth; None if it was not kept.

    loss: may be NaN, since a diverged model is a result too. Loss and the qualities (`metrics.QUALITIES`) are None if
    they are undefined or the folder does not have them.
    """

    macro_f1: float | None = None
    loss: float | None = None
    confusion: Counts | None = None
    balanced_accuracy: float | None = None
    auroc: float | None = None
    sensitivity: float | None = None
    calibration_error: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.balanced_accuracy is None and self.confusion is not None:
            object.__setattr__(self, "balanced_accuracy", balanced_accuracy(np.array(self.confusion)))

    @classmethod
    def of(cls, found: Evaluation | Score, confusion: Iterable[Iterable[int]] | None = None) -> ClientScore:
        """Build a score from an evaluation computed here or from a participant's report."""
        return cls(
            correct=found.correct,
            samples=found.samples,
            loss=math.nan if found.loss is None else found.loss,
            confusion=None if confusion is None else tuple(tuple(map(int, row)) for row in confusion),
            **{name: getattr(found, name) for name in QUALITIES},
        )


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """One round, counted from 0.

    splits: by `validation` and `test`, one score per client, None if not measured; empty if the round was not
    evaluated; scores are of the models to hand over; delivered: the same for the models as delivered, if they differ.
    seconds: wall time by what it was spent on; up, down: bytes on the wire per client, empty if not counted;
    compressed: if not counted, the share of the updates' bytes that compression left. clock, updates, trained, ended:
    for runs under a virtual clock, whose records are moments instead of rounds: virtual seconds, updates so far, rounds
    that each client trained, and how the run ended (in the last record).
    """

    number: int
    phase: str = ""
    train_loss: tuple[float, ...] = ()
    splits: Mapping[str, tuple[ClientScore | None, ...]] = field(default_factory=dict)
    delivered: Mapping[str, tuple[ClientScore | None, ...]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    compressed: float | None = None
    clock: float | None = None
    updates: int | None = None
    trained: tuple[int, ...] = ()
    ended: str = ""

    @property
    def scores(self) -> tuple[ClientScore | None, ...]:
        """On test samples; empty for a round that was not evaluated."""
        return self.splits.get("test", ())

    def values(self, what: str, split: str = "test") -> list[Any]:
        """Return `accuracy`, a quality, `loss`, `samples` or `confusion` of every client, None if not measured."""
        return [None if one is None else getattr(one, what) for one in self.splits.get(split, ())]

    @cached_property
    def mean(self) -> float | None:
        """Unweighted mean test accuracy over the clients that were measured."""
        return self.mean_of("test")

    def mean_of(self, split: str) -> float | None:
        known = [value for value in self.values("accuracy", split) if value is not None]
        return fmean(known) if known else None

    def line(self) -> str:
        """Return the record as a line of `rounds.jsonl`."""
        named: Json = {"round": self.number, "phase": self.phase, "train_loss": list(self.train_loss)}
        named |= {"clock": self.clock, "updates": self.updates, "trained": list(self.trained)}
        named |= {split: _split_json(scores) for split, scores in self.splits.items()}
        named |= {"delivered": {split: _split_json(scores) for split, scores in self.delivered.items()}}
        named |= {"seconds": dict(self.seconds)}
        named |= {"bytes": {"up": list(self.up), "down": list(self.down)} if self.up or self.down else None}
        named |= {"compressed": None if self.compressed is None else round(self.compressed, 4), "ended": self.ended}
        return json.dumps({key: value for key, value in named.items() if value not in (None, "", [], {})}) + "\n"

    @classmethod
    def of_line(cls, line: str) -> RoundRecord:
        """Read a line; fields that older folders lack get their defaults."""
        found: Json = json.loads(line)
        counted = found.get("bytes") or {}
        return cls(
            number=int(found["round"]),
            phase=str(found.get("phase", "")),
            train_loss=tuple(map(float, found.get("train_loss", ()))),
            splits=_splits_of(found),
            delivered=_splits_of(found.get("delivered") or {}),
            seconds={key: float(value) for key, value in (found.get("seconds") or {}).items()},
            up=tuple(map(int, counted.get("up", ()))),
            down=tuple(map(int, counted.get("down", ()))),
            compressed=found.get("compressed"),
            clock=found.get("clock"),
            updates=found.get("updates"),
            trained=tuple(map(int, found.get("trained", ()))),
            ended=str(found.get("ended", "")),
        )


def _split_json(scores: Sequence[ClientScore | None]) -> Json:
    columns = {
        name: [None if one is None else getattr(one, name) for one in scores]
        for name in ("accuracy", *_COLUMNS, "samples")
    }
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _splits_of(found: Json) -> dict[str, tuple[ClientScore | None, ...]]:
    return {split: tuple(_scores_of(found[split])) for split in _SPLITS if found.get(split)}


def _scores_of(split: Json) -> Iterator[ClientScore | None]:
    missing = [None] * len(split["accuracy"])
    columns = [split.get(name) or missing for name in _COLUMNS]
    for accuracy, samples, *values in zip(split["accuracy"], split["samples"], *columns, strict=True):
        if accuracy is None:
            yield None
            continue
        named = dict(zip(_COLUMNS, values, strict=True))
        if named["confusion"] is not None:
            named["confusion"] = tuple(tuple(map(int, row)) for row in named["confusion"])
        yield ClientScore(correct=round(accuracy * samples), samples=samples, **named)


def complete_lines(path: Path) -> list[str]:
    """Return the lines of a `rounds.jsonl`, none if there is no file; an incomplete last line is no result."""
    if not path.exists():
        return []
    with intact(path):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n")]


def read_rounds(path: Path) -> list[RoundRecord]:
    """Return all records of a `rounds.jsonl`."""
    found = []
    for number, line in enumerate(complete_lines(path), start=1):
        with intact(path, line=number):
            found.append(RoundRecord.of_line(line))
    return found


@dataclass(frozen=True, kw_only=True)
class ParticipantBytes:
    """Bytes of one participant: per round, up and down, and once per run; `measured`: counted, not computed."""

    up: float
    down: float
    once: float
    measured: bool = False

    @property
    def per_round(self) -> float:
        return self.up + self.down

    def until(self, rounds: float) -> float:
        return self.once + rounds * self.per_round


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One algorithm, one seed. settings: all settings by dotted name; asked: requested number of rounds.

    computed: computed bytes, if none were counted. notes: sentences that explain the run's figures.
    """

    source: str
    algorithm: str
    options: Mapping[str, str]
    seed: int
    asked: int
    clients: tuple[str, ...]
    rounds: tuple[RoundRecord, ...]
    classes: tuple[str, ...] = ()
    class_counts: Counts | None = None
    mixing: AnyMixing | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    computed: ParticipantBytes | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.clients)
        for record in self.rounds:
            for name, values in (("scores", record.scores), ("up", record.up), ("down", record.down)):
                self._require(f"round {record.number} {name}", values, empty=True)
        if self.class_counts is not None:
            self._require("class counts", self.class_counts)
            if any(len(row) != len(self.classes) for row in self.class_counts):
                raise InvalidInput(self.source, "class counts", f"one for each of {len(self.classes)} classes")
        if self.mixing is not None and len(self.mixing) != count:
            raise InvalidInput(self.source, f"W over {len(self.mixing)}", f"W over its {count} clients")

    def _require(self, what: str, values: Sequence[object], *, empty: bool = False) -> None:
        if len(values) != len(self.clients) and not (empty and not values):
            raise InvalidInput(self.source, f"{what} of {len(values)}", f"one for each of {len(self.clients)} clients")

    @property
    def same_clients(self) -> bool:
        """Whether other seeds have the same clients: not if the lab dealt the samples out."""
        return self.settings.get("cohort.partition", "site") == "site"

    @cached_property
    def evaluated(self) -> tuple[RoundRecord, ...]:
        """The rounds with scores."""
        return tuple(record for record in self.rounds if record.mean is not None)

    @property
    def is_finished(self) -> bool:
        """Whether the run has reached its requested number of rounds."""
        return bool(self.evaluated) and self.rounds[-1].number + 1 >= self.asked

    def at(self, number: int) -> RoundRecord:
        """Return the last evaluated round up to `number`."""
        return [record for record in self.evaluated if record.number <= number][-1]
