"""Read the models of a finished run from the state folder, and determine which of them to keep.

These are the federation's model, the same model fine-tuned, and the one trained alone, each with its scores. No data
are needed: every model was evaluated when it was saved. `fedap_core.choosing` makes the choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.similarity import unlike_sentence
from participant.record.disk import Disk
from participant.record.model_file import read_model
from participant.record.private_state import PERSONAL, RunState, SavedRound
from protocol.messages import Goodbye


@dataclass(frozen=True, kw_only=True)
class KeptModel:
    """One model of a finished run. rounds: rounds trained. judged: by split, see `training.alone.judged_by_split`."""

    candidate: Candidate
    rounds: int
    model: State
    judged: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class KeptModels:
    """The models of a state folder to choose from. notes: the final model's provenance. rounds: those of the run."""

    spec: ModelSpec
    notes: Mapping[str, str]
    rounds: int
    models: Mapping[str, KeptModel]
    choice: Choice
    mixed_from: Mapping[str, float]
    """This participant's row of W, largest weight first: weights by member, as sent by the coordinator."""
    similarity: float | None = None
    """Similarity to the most similar member, if the coordinator sent it."""
    instead: str = ""
    """Which model is kept instead of the last delivery, and why; empty if that was used."""

    def words(self) -> list[str]:
        """Lines for the user: whether the last delivery was not used, how the models compare, if there are several, and
        whether no other member is similar."""
        if len(self.models) < 2:
            return self.instead_words() + self._fit_words()
        alone = self.models.get(ALONE)
        short = alone is not None and alone.rounds < self.rounds
        note = f"Training alone was stopped after {alone.rounds} of {self.rounds} rounds." if alone and short else ""
        compared = [line for line in (self.choice.sentence, self.choice.test_sentence, note) if line]
        return self.instead_words() + compared + self._fit_words()

    def instead_words(self) -> list[str]:
        """A line saying that the last delivery was not used, if so."""
        return [instead_sentence(self.instead)] if self.instead else []

    def _fit_words(self) -> list[str]:
        """A line saying that no other member has similar data, if the coordinator reported that."""
        own = self.mixed_from.get(self.notes.get("participant", ""), 0.0)
        sentence = unlike_sentence(self.similarity, own)
        return [sentence] if sentence else []


def kept_models(state: Path) -> KeptModels | None:
    """Read the models of the run that ended last in this folder; None before any has ended."""
    personal = state / PERSONAL
    if not personal.is_file():
        return None
    spec, tensors, notes = read_model(personal)
    files = RunState(state / "state" / notes.get("run", ""), spec, Disk())
    final = files.latest()
    if final is None or final.kind != Goodbye.KIND:
        final = None
    facts: Mapping[str, Any] = {} if final is None else final.facts
    instead = str(facts.get("instead", ""))
    name = OWN if instead else FEDERATED
    last = KeptModel(
        candidate=_candidate(name, final),
        rounds=int(notes.get("rounds", "0")),
        model=tensors,
        judged=_judged(final),
    )
    models = {name: last}
    for name in (ALONE, FINE_TUNED):
        saved = None if final is None else files.read_beside(name)
        if saved is not None:
            rounds = saved.round_no + (name == ALONE)
            candidate = _candidate(name, saved)
            models[name] = KeptModel(candidate=candidate, rounds=rounds, model=dict(saved.model), judged=_judged(saved))
    return KeptModels(
        spec=spec,
        notes=notes,
        rounds=last.rounds,
        models=models,
        choice=choose([one.candidate for one in models.values()]),
        mixed_from=facts.get("mixed_from") or {},
        similarity=facts.get("similarity"),
        instead=instead,
    )


def _candidate(name: str, saved: SavedRound | None) -> Candidate:
    scores: Any = () if saved is None else saved.facts.get("scores", ())
    return candidate_of(name, scores)


def _judged(saved: SavedRound | None) -> Mapping[str, Mapping[str, Any]]:
    found: Any = {} if saved is None else saved.facts.get("judged", {})
    return dict(found)
