"""A finished or half-finished run as the report knows it: whose models were how good in which round, and under which W.

Where the numbers came from, a lab's run folder or a coordinator's journal, is no longer visible here. What a source
does not know is None or empty, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.metrics import wilson_interval

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ClientScore:
    """One model on one client's test samples. confusion: rows are the truth; None where it was not kept."""

    correct: int
    samples: int
    confusion: Counts | None = None

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.correct <= self.samples:
            raise InvalidInput("score", f"{self.correct} of {self.samples}", "0 <= correct <= samples, samples >= 1")

    @property
    def accuracy(self) -> float:
        return self.correct / self.samples

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of Wilson."""
        return wilson_interval(self.correct, self.samples)


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """One round, counted from 0. scores: one per client, None where nobody measured; empty: a round not evaluated.

    validation: mean accuracy on validation samples, where a split has them. seconds: wall time by what it was spent on;
    up, down: bytes on the wire per client, empty where not counted.
    """

    number: int
    scores: tuple[ClientScore | None, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    validation: float | None = None
    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()

    @cached_property
    def mean(self) -> float | None:
        """Unweighted mean over the clients that were measured."""
        known = [score.accuracy for score in self.scores if score is not None]
        return fmean(known) if known else None


@dataclass(frozen=True, kw_only=True)
class ComputedBytes:
    """Bytes of one participant that nobody measured: in every round, both ways alike, and once."""

    per_round: float
    once: float

    def until(self, rounds: float) -> float:
        return self.once + rounds * self.per_round


@dataclass(frozen=True, kw_only=True, eq=False)
class MixingRecord:
    """W and what explains it. weights: (n, n); distances: (L, n, n) or None; from_round: counted from 0."""

    weights: FloatArray
    layers: tuple[str, ...] = ()
    distances: FloatArray | None = None
    from_round: int = 0

    def __post_init__(self) -> None:
        count = len(self.weights)
        if self.weights.shape != (count, count):
            raise InvalidInput("mixing.weights", f"shape {self.weights.shape}", "a square matrix")
        if self.distances is not None and self.distances.shape != (len(self.layers), count, count):
            expected = f"{(len(self.layers), count, count)}, one matrix per layer"
            raise InvalidInput("mixing.distances", f"shape {self.distances.shape}", expected)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One algorithm, one seed. settings: every choice by its dotted name; asked: rounds the run was to have.

    computed: bytes that were worked out, where none were counted.
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
    mixing: MixingRecord | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    computed: ComputedBytes | None = None

    def __post_init__(self) -> None:
        count = len(self.clients)
        for record in self.rounds:
            for name, values in (("scores", record.scores), ("up", record.up), ("down", record.down)):
                self._require(f"round {record.number} {name}", values, empty=True)
        if self.class_counts is not None:
            self._require("class counts", self.class_counts)
            if any(len(row) != len(self.classes) for row in self.class_counts):
                raise InvalidInput(self.source, "class counts", f"one for each of {len(self.classes)} classes")
        if self.mixing is not None and len(self.mixing.weights) != count:
            raise InvalidInput(self.source, f"W over {len(self.mixing.weights)}", f"W over its {count} clients")

    def _require(self, what: str, values: Sequence[object], *, empty: bool = False) -> None:
        if len(values) != len(self.clients) and not (empty and not values):
            raise InvalidInput(self.source, f"{what} of {len(values)}", f"one for each of {len(self.clients)} clients")

    @cached_property
    def evaluated(self) -> tuple[RoundRecord, ...]:
        """The rounds with scores."""
        return tuple(record for record in self.rounds if record.mean is not None)

    @property
    def is_finished(self) -> bool:
        """Whether it has come to the round it was to reach."""
        return bool(self.evaluated) and self.rounds[-1].number + 1 >= self.asked

    def at(self, number: int) -> RoundRecord:
        """The last evaluated round up to this one."""
        return [record for record in self.evaluated if record.number <= number][-1]
