"""Computes the progress of a run from its facts: scores by member and round, duration of rounds, time left.

Takes facts one by one, live or from a journal; the same facts give the same results. Decides nothing about the run.
Rounds count from 1 here, as people count them; 0 is the model that the run started from.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from coordinator.decisions import facts
from coordinator.decisions.scoring import scored

_PACE_OVER = 10
"""Number of latest rounds whose duration predicts the remaining ones."""


@dataclass(frozen=True, kw_only=True)
class RoundScore:
    """Accuracy of a round's model on a member's own test samples. round: from 1."""

    round: int
    accuracy: float
    samples: int


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Latest scores of several members: unweighted mean, the lowest and its member, number of members."""

    mean: float
    lowest: float
    lowest_member: str
    members: int


class RunProgress:
    """Progress of one run. rounds: planned number. continuous: each member counts its own rounds. history: keep every
    score, not only each member's latest."""

    def __init__(self, *, rounds: int, continuous: bool, history: bool = True) -> None:
        self._rounds = rounds
        self._history = history
        self._continuous = continuous
        self.scores: dict[str, list[RoundScore]] = defaultdict(list)
        self.updates: dict[str, int] = defaultdict(int)
        """Rounds that each member has trained: the round of its latest admitted update, from 1."""
        self.reported_at: dict[str, float] = {}
        self.closed = 0
        """Number of closed rounds."""
        self.last_round_s: float | None = None
        self._paces: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_PACE_OVER + 1))
        """Times at which rounds closed, under the empty name; in continuous mode times of each member's reports."""
        self._opened_at: float | None = None
        self._is_over = False

    def add(self, fact: facts.Fact, time_s: float) -> None:
        """Add one fact with its time on the run clock."""
        match fact:
            case facts.UpdateAccepted():
                self._reported(fact, time_s)
                self.updates[fact.member] = max(self.updates[fact.member], fact.round_no + 1)
                if self._continuous:
                    self._paces[fact.member].append(time_s)
            case facts.GoodbyeAccepted():
                self._reported(fact, time_s)
            case facts.StatsAccepted():
                self.reported_at[fact.member] = time_s
            case facts.RoundOpened():
                self._opened_at = time_s
                self._paces[""] = self._paces[""] or deque([time_s], maxlen=_PACE_OVER + 1)
            case facts.RoundClosed():
                self.closed = fact.round_no + 1
                self.last_round_s = None if self._opened_at is None else time_s - self._opened_at
                self._paces[""].append(time_s)
            case facts.CaughtUp():
                self.closed = fact.round_no
            case facts.Finished():
                self._is_over = True
            case _:
                pass

    def _reported(self, fact: facts.UpdateAccepted | facts.GoodbyeAccepted, time_s: float) -> None:
        self.reported_at[fact.member] = time_s
        found = scored(fact, "test")
        if found is None:
            return
        round_no, score = found
        mine = self.scores[fact.member]
        one = RoundScore(round=round_no + 1, accuracy=score.correct / score.samples, samples=score.samples)
        if not self._history:
            mine.clear()
        elif mine and mine[-1].round >= one.round:  # reported again, after the folder was older than the federation
            mine[:] = [before for before in mine if before.round < one.round]
        mine.append(one)

    def latest(self, member: str) -> RoundScore | None:
        """Return a member's latest score."""
        mine = self.scores.get(member)
        return mine[-1] if mine else None

    def summary(self, members: Collection[str]) -> ScoreSummary | None:
        """Summarise the latest scores of these members; None while nobody has one."""
        found = {name: score.accuracy for name in members if (score := self.latest(name)) is not None}
        if not found:
            return None
        worst = min(found, key=lambda name: (found[name], name))
        mean = sum(found.values()) / len(found)
        return ScoreSummary(mean=mean, lowest=found[worst], lowest_member=worst, members=len(found))

    def seconds_left(self, members: Collection[str], now: float) -> float | None:
        """Estimate the seconds until all rounds are trained from the duration of the latest ones; None: unknown.
        members: those that take part."""
        if self._is_over:
            return 0.0
        if not self._continuous:
            return self._left("", self._rounds - self.closed, now)
        lefts = [self._left(name, self._rounds - self.updates[name], now) for name in members]
        known = [left for left in lefts if left is not None]
        return max(known) if known and len(known) == len(lefts) else None

    def _left(self, name: str, rounds: int, now: float) -> float | None:
        times = self._paces.get(name)
        if rounds <= 0:
            return 0.0
        if times is None or len(times) < 2:
            return None
        pace = median(later - earlier for earlier, later in zip(list(times), list(times)[1:], strict=False))
        return max(rounds * pace - (now - times[-1]), 0.0)
