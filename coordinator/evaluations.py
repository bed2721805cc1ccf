"""Finds the latest score of each member, whatever its round.

Without barriers, or while a round is open, members are at different rounds; a mean over the latest round alone would
cover only the members that are ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.decisions import facts
from coordinator.decisions.scoring import scored
from coordinator.decisions.state import Status
from coordinator.record.journal import fact_of
from coordinator.runs import StoredRun
from fedap_core.workspace import DELIVERED, HANDED_OVER, TRAINED

MODEL_WORDS: Mapping[str, str] = {
    DELIVERED: "the delivered model",
    HANDED_OVER: "the model handed over",
    TRAINED: "the model after local training",
}
"""Which model a score belongs to, in words."""


@dataclass(frozen=True, kw_only=True)
class LastScore:
    """The latest score of one member. round_no: round of the scored model, from 0; model: which model it is."""

    round_no: int
    model: str
    accuracy: float


def latest_evaluations(past: StoredRun) -> dict[str, LastScore]:
    """Return the latest score by member, without excluded members. Usually the end of the journal suffices; all of it
    is read if a member's latest score may be earlier."""
    members = past.machine.state.members
    snapshot = past.journal.latest_snapshot()
    recent = 0 if snapshot is None else max(snapshot.serial - 10 * len(members), 0)
    found = _evaluations(past, recent)
    if recent and len(found) < len(members):
        found = _evaluations(past, 0)
    excluded = (Status.EXCLUDED, Status.REMOVED)
    return {name: one for name, one in found.items() if name in members and members[name].status not in excluded}


def _evaluations(past: StoredRun, after: int) -> dict[str, LastScore]:
    found: dict[str, LastScore] = {}
    for entry in past.journal.entries(after):
        fact = fact_of(entry)
        if isinstance(fact, facts.UpdateAccepted | facts.GoodbyeAccepted) and (judged := scored(fact, "test")):
            round_no, score = judged
            found[fact.member] = LastScore(round_no=round_no, model=score.model, accuracy=score.correct / score.samples)
    return found


def evaluation_line(found: Mapping[str, LastScore]) -> str:
    """Return the mean over members in a sentence, with the rounds and models that it covers."""
    models = sorted({MODEL_WORDS.get(one.model, one.model) for one in found.values()})
    rounds = [one.round_no for one in found.values()]
    mean = sum(one.accuracy for one in found.values()) / len(found)
    members = "1 member" if len(found) == 1 else f"{len(found)} members"
    return (
        f"Last evaluation: {rounds_in_words(min(rounds), max(rounds))}, mean test accuracy of"
        f" {' and '.join(models)} {mean:.4f} over {members}."
    )


def rounds_in_words(first: int, last: int) -> str:
    """Return round numbers as people count them, from 1; the model before round 1 is the initial one."""
    if last < 0:
        return "before round 1"
    return f"round {last + 1}" if first == last else f"rounds {max(first + 1, 0)} to {last + 1}"
