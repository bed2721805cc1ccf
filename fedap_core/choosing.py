"""Choose which of its models a participant keeps: the best one on its validation samples, and how certain that is.

The lab's tables, the end of `join` and `export` all use this module. It takes counts and returns a choice with a
sentence; test samples play no part in the choice and are only reported with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.metrics import wilson_interval
from fedap_core.workspace import headline_rank

FEDERATED = "federated"
"""The model that the federation's algorithm hands over."""
FINE_TUNED = "fine-tuned"
"""That model after further local training."""
OWN = "own"
"""The participant's own last model in the federation, kept because the last delivery was refused or had no weights."""
ALONE = "alone"
"""The model trained only on the participant's own data."""
BEST = "best"
"""Stands for the chosen model."""

_SUBJECTS = {
    FEDERATED: "together",
    OWN: "without the last delivery",
    FINE_TUNED: "together and fine-tuned",
    ALONE: "alone",
}
_NAMES = {
    FEDERATED: "the federated model",
    OWN: "the model kept instead of the last delivery",
    FINE_TUNED: "the fine-tuned model",
    ALONE: "your own model",
}


@dataclass(frozen=True, kw_only=True)
class HitCount:
    """How many of the samples a model classified correctly."""

    correct: int
    samples: int

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.correct <= self.samples:
            raise InvalidInput("score", f"{self.correct} of {self.samples}", "0 <= correct <= samples, samples >= 1")

    @property
    def accuracy(self) -> float:
        return self.correct / self.samples

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson_interval(self.correct, self.samples)

    @property
    def words(self) -> str:
        low, high = self.interval
        return f"{100 * self.accuracy:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One model and its results. validation: None if no samples were held back; it then cannot be chosen."""

    name: str
    validation: HitCount | None
    test: HitCount | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The model to keep. rival: the model it is compared with: the first candidate, which was asked for, or the best of
    the others if the first is chosen; None if there was nothing to choose.

    difference: 95 % interval of the chosen model's validation accuracy minus the rival's.
    """

    name: str
    candidates: tuple[Candidate, ...]
    rival: str | None = None
    difference: tuple[float, float] | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the difference is statistically significant."""
        return self.difference is not None and self.difference[0] > 0.0

    def of(self, name: str) -> Candidate:
        """Return a candidate by name; `best` is the chosen one."""
        wanted = self.name if name == BEST else name
        found = {one.name: one for one in self.candidates}
        if wanted not in found:
            raise unknown_name("which", name, [*found, BEST])
        return found[wanted]

    @property
    def sentence(self) -> str:
        """The comparison as a sentence: the validation accuracy of each model, and which one is kept."""
        name = _NAMES.get(self.name, self.name)
        if self.difference is None:
            only = (
                "there is no other model" if len(self.candidates) == 1 else "no samples were held back for the choice"
            )
            return f"{only[0].upper()}{only[1:]}; export takes {name}."
        samples = next(one.validation.samples for one in self.candidates if one.validation is not None)
        best, second = (self.of(one).validation for one in (self.name, self.rival or self.name))
        other = _NAMES.get(self.rival or "", self.rival)
        unsure = f"compared with {other}, {'no difference' if best == second else 'this may be chance'}"
        verdict = f"{name} is better; export takes it" if self.is_clear else f"{unsure}; export takes {name}"
        return f"{_reached(self._compared, 'validation')} of {samples} validation samples: {verdict}."

    @property
    def test_sentence(self) -> str:
        """The same models on test samples; empty if there are none."""
        samples = next((one.test.samples for one in self.candidates if one.test is not None), None)
        if samples is None:
            return ""
        counted = f"{samples} test sample{'s' if samples > 1 else ''}"
        return f"{_reached(self._compared, 'test')} of {counted}, which were not used for the choice."

    @property
    def _compared(self) -> list[Candidate]:
        return sorted(self.candidates, key=lambda one: one.name != ALONE)


def candidate_of(name: str, scores: Sequence[Mapping[str, Any]]) -> Candidate:
    """Build a candidate from the scores saved with its model, as plain fields; of several kinds, the headline's."""
    counts = {
        one["split"]: HitCount(correct=one["correct"], samples=one["samples"])
        for one in sorted(scores, key=lambda one: -headline_rank(one["model"]))
        if one["samples"] > 0
    }
    return Candidate(name=name, validation=counts.get("validation"), test=counts.get("test"))


def instead_sentence(instead: str) -> str:
    """Say that the run ended without a federated model for this participant; empty if it has one. instead: the model
    kept, and why."""
    return f"The last federated model was not used; kept instead: {instead}." if instead else ""


def choose(candidates: Sequence[Candidate]) -> Choice:
    """Choose the candidate with the highest validation accuracy; among equal ones the first candidate, otherwise by
    name: a model trained alone comes before a fine-tuned one. The order of the other candidates does not matter.

    The first candidate is the one asked for, and is kept if no samples were held back. The interval of the difference
    is Newcombe's, from both Wilson intervals: it treats the two models as evaluated on different samples, and so is
    wider than a paired one.
    """
    if not candidates:
        raise InvalidInput("candidates", "none", "at least one model to choose")
    judged = [(one.validation, one) for one in candidates if one.validation is not None]
    if candidates[0].validation is None or len(judged) < 2:
        return Choice(name=candidates[0].name, candidates=tuple(candidates))
    ranked = sorted(judged, key=lambda pair: (-pair[0].accuracy, pair[1] is not candidates[0], pair[1].name))
    best, chosen = ranked[0]
    second, rival = ranked[1] if chosen is candidates[0] else judged[0]
    return Choice(
        name=chosen.name, rival=rival.name, candidates=tuple(candidates), difference=difference_interval(best, second)
    )


def difference_interval(one: HitCount, other: HitCount) -> tuple[float, float]:
    """95 % interval of one accuracy minus the other (Newcombe 1998, method 10)."""
    (low, high), (other_low, other_high) = one.interval, other.interval
    gap = one.accuracy - other.accuracy
    below = math.hypot(one.accuracy - low, other_high - other.accuracy)
    above = math.hypot(high - one.accuracy, other.accuracy - other_low)
    return gap - below, gap + above


def _reached(candidates: Sequence[Candidate], split: str) -> str:
    """«Alone you reach 89.4 % (82.0 to 94.0 %), together 44.3 % (36.0 to 53.0 %)»."""
    tallies = [(one.name, one.test if split == "test" else one.validation) for one in candidates]
    parts = [(_SUBJECTS.get(name, name), tally.words) for name, tally in tallies if tally is not None]
    (first, words), *rest = parts
    return ", ".join([f"{first[0].upper()}{first[1:]} you reach {words}", *(f"{who} {words}" for who, words in rest)])
