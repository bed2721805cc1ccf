"""Extracts each round of a run from a coordinator's journal; run folders and reports are both made from it.

Takes facts one by one, while the journal is written or afterwards, and decides which report belongs to which round.
Knows neither files nor settings.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.decisions import facts
from coordinator.decisions.scoring import alone_scores
from fedap_core.workspace import TRAINED
from protocol.messages import Score

Scores = dict[tuple[str, str], Score]
"""By model (as delivered or as it would be handed over) and split."""


@dataclass(kw_only=True)
class JournalRound:
    """One round. opened_s, closed_s: on the run clock, None if the journal does not have them.

    losses: of the members that trained in it. scores: of the members that evaluated its models; stored_under: the round
    of the report that carried these scores, under which shared tables are stored.
    """

    opened_s: float | None = None
    closed_s: float | None = None
    losses: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    stored_under: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CountedRounds:
    """How to count rounds in a run without barriers: one round per `members` updates, whoever sent them.

    first: the round after warm-up. last: the round that final reports belong to.
    """

    members: int
    first: int
    last: int


class JournalRounds:
    """One run. counted: how to count rounds without barriers; None: every report belongs to its member's own round."""

    def __init__(self, counted: CountedRounds | None = None) -> None:
        self._counted = counted
        self.rounds: defaultdict[int, JournalRound] = defaultdict(JournalRound)
        self.members: set[str] = set()
        self.updates = 0
        """After warm-up."""
        self.measured: dict[str, tuple[str, int]] = {}
        """By member: the kind and the round of the report with its latest statistics."""
        self.weighed: facts.Weighed | None = None
        self.requested: dict[str, Mapping[str, int]] = {}
        """By member: the row of W that it last requested, in a sealed run."""
        self.alone: dict[str, dict[str, Score]] = {}
        """By member and split: scores of the model it trained on its own data only, if it shares them."""

    def add(self, fact: facts.Fact, time_s: float) -> None:
        """Take one fact with its time on the run clock."""
        match fact:
            case facts.Joined(member=member):
                self.members.add(member)
            case facts.StatsAccepted(member=member, round_no=round_no):
                self.measured[member] = ("stats", round_no)
            case facts.Weighed():
                self.weighed = fact
            case facts.RoundOpened(round_no=round_no):
                self._open(round_no, time_s)
            case facts.RoundClosed(round_no=round_no):
                self.rounds[round_no].closed_s = time_s
            case facts.UpdateAccepted():
                self._add_update(fact, time_s)
            case facts.GoodbyeAccepted():
                self._add_scores(fact, fact.round_no if self._counted is None else self._counted.last + 1)
                if "test" in (scores := alone_scores(fact)):
                    self.alone[fact.member] = scores
            case _:
                pass

    def _open(self, round_no: int, time_s: float) -> None:
        """Record when a round opened; it may open again, with newcomers, but the first time counts."""
        if self.rounds[round_no].opened_s is None:
            self.rounds[round_no].opened_s = time_s

    def _add_update(self, fact: facts.UpdateAccepted, time_s: float) -> None:
        round_no = fact.round_no
        if self._counted is not None and round_no >= self._counted.first:
            round_no = self._counted.first + self.updates // self._counted.members
            self._open(round_no, time_s)
            self.updates += 1
        loss = math.nan if fact.train_loss is None else fact.train_loss
        self.rounds[round_no].losses[fact.member] = loss
        if fact.measured:
            self.measured[fact.member] = ("update-statistics", fact.round_no)
        if fact.row:
            self.requested[fact.member] = dict(fact.row)
        self._add_scores(fact, round_no)

    def _add_scores(self, fact: facts.UpdateAccepted | facts.GoodbyeAccepted, round_no: int) -> None:
        """Add a report's scores to the round they evaluate: scores of a delivered model belong to the round before.

        See `coordinator.decisions.scoring`. A member that did not use the last weights scores no model of the run.
        """
        delivered = all(score.model != TRAINED for score in fact.scores)
        if fact.scores and (delivered or isinstance(fact, facts.UpdateAccepted)):
            judged = self.rounds[round_no - any(score.model != TRAINED for score in fact.scores)]
            judged.scores[fact.member] = {(score.model, score.split): score for score in fact.scores}
            judged.stored_under[fact.member] = fact.round_no
