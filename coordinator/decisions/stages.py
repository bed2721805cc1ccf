"""The stages of a run, and the facts that lead from one to the next.

Rules for this file:
1. TABLE defines all changes of stage. `history.apply` calls `after` for every fact; no other code sets a stage.
2. A fact that is neither in the table for a stage nor in ANYWHERE cannot happen in that stage: the machine that makes
   one, or the journal that contains one, is wrong.
3. The diagram in ARCHITECTURE.md is generated from the table: `python -m tests.architecture.stage_diagram`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from coordinator.decisions import facts


class Stage(enum.StrEnum):
    """How far a run has come."""

    ENROLLING = "enrolling"
    MEASURING = "measuring"
    TRAINING = "training"
    AGGREGATING = "aggregating"
    FINISHED = "finished"
    ABORTED = "aborted"

    @property
    def is_over(self) -> bool:
        return self in (Stage.FINISHED, Stage.ABORTED)


ABORTED = "Finished(aborted)"
"""The table's name for a `Finished` whose reason is "aborted"."""

_END = {"Finished": Stage.FINISHED, ABORTED: Stage.ABORTED}
_CAUGHT_UP = {"CaughtUp": Stage.TRAINING}  # the folder was older than the federation: the round is open again

TABLE: Mapping[Stage, Mapping[str, Stage]] = {
    Stage.ENROLLING: {
        "Began": Stage.ENROLLING,
        "EnrolmentClosed": Stage.ENROLLING,
        "MeasuringOpened": Stage.MEASURING,  # an order before training: to measure, or to start from the anchor
        "RoundOpened": Stage.TRAINING,
        **_CAUGHT_UP,
        **_END,
    },
    Stage.MEASURING: {
        "StatsAccepted": Stage.MEASURING,
        "RoundOpened": Stage.TRAINING,
        **_CAUGHT_UP,
        **_END,
    },
    Stage.TRAINING: {
        "StatsAccepted": Stage.TRAINING,  # of a newcomer
        "UpdateAccepted": Stage.TRAINING,
        "RowPlanned": Stage.TRAINING,
        "RoundOpened": Stage.TRAINING,  # again, with newcomers: without them it could never close
        "RoundClosed": Stage.AGGREGATING,
        **_CAUGHT_UP,
        **_END,
    },
    Stage.AGGREGATING: {
        "StatsAccepted": Stage.AGGREGATING,
        "UpdateAccepted": Stage.AGGREGATING,  # late
        "RoundOpened": Stage.TRAINING,
        "MeasuringOpened": Stage.MEASURING,  # warm-up is over and has produced the anchor
        **_CAUGHT_UP,
        **_END,
    },
    Stage.FINISHED: {"GoodbyeAccepted": Stage.FINISHED, "Ended": Stage.FINISHED},
    Stage.ABORTED: {"GoodbyeAccepted": Stage.ABORTED, "Ended": Stage.ABORTED},
}
"""stage -> name of the fact -> next stage."""

ANYWHERE = frozenset(
    {
        *("Joined", "Returned", "Contested", "Lost", "Left", "Refused", "Quarantined", "AllowListSet"),
        *("StopAsked", "Paused", "Resumed", "Weighed", "StatisticsLost"),
    }
)
"""Facts about members, the operator, the disk and finished work: possible in every stage, which they do not change."""


class ImpossibleFact(ValueError):
    """A fact is impossible in the current stage: a bug in the machine, or a journal that mixes runs."""


def name_of(fact: facts.Fact) -> str:
    """Return the table's name for a fact."""
    return ABORTED if isinstance(fact, facts.Finished) and fact.reason == "aborted" else type(fact).__name__


def after(stage: Stage, fact: facts.Fact) -> Stage:
    """Return the stage that a fact leads to; ImpossibleFact if there is none."""
    name = name_of(fact)
    following = stage if name in ANYWHERE else TABLE[stage].get(name)
    if following is None:
        raise ImpossibleFact(f"{name} while {stage}; expected one of {', '.join(TABLE[stage])}")
    return following


def moves() -> Iterator[tuple[Stage, str, Stage]]:
    """Yield every change of stage in the order of the table: (from, fact, to)."""
    for stage, row in TABLE.items():
        for name, following in row.items():
            if following is not stage or name == "RoundOpened":
                yield stage, name, following
