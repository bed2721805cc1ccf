"""Decides whether one model is better than another for one client, and how certain that is.

Both are measured on the same test samples, but which samples each got wrong is not kept. A difference therefore counts
as more than chance only if the two 95 % intervals do not overlap, which is conservative. Intervals do not account for
models that swing from round to round: if the last round and the mean of the last ones differ widely, the mean decides.
Where a participant held back validation samples, they decide instead, by the rule of `fedap_core.choosing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fedap_core.choosing import ALONE, FEDERATED, Candidate, Choice, HitCount, choose
from scripts.run.records import ClientScore

SWING = 0.02
"""Two points between the last round and the mean of the last ones: more than a reader would attribute to rounding."""


class ClientVerdict(Enum):
    """What another model does for one client."""

    GAIN = "gain"
    MAYBE_GAIN = "maybe-gain"
    SAME = "same"
    MAYBE_LOSS = "maybe-loss"
    LOSS = "loss"
    UNKNOWN = "unknown"

    @property
    def is_better(self) -> bool:
        return self in (ClientVerdict.GAIN, ClientVerdict.MAYBE_GAIN)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One algorithm at one client. tail: mean accuracy over the last rounds; None in runs too short for one.

    validation: the same model as in `last` on samples held back for the choice; None without such samples."""

    name: str
    last: ClientScore
    tail: float | None = None
    validation: HitCount | None = None

    @property
    def usual(self) -> float:
        """The accuracy that does not depend on a single round, if there is one."""
        return self.last.accuracy if self.tail is None else self.tail

    @property
    def hits(self) -> HitCount:
        """The usual accuracy as a count of correct test samples, which are the same in all rounds."""
        return HitCount(correct=round(self.usual * self.last.samples), samples=self.last.samples)

    @property
    def usual_interval(self) -> tuple[float, float]:
        """95 % interval of the usual accuracy: as wide as that of one round, since all rounds use the same samples."""
        return self.hits.interval


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Gain of one model over another. last, tail: as fractions; apart: whether the leading figure's intervals are
    disjoint."""

    last: float
    tail: float | None
    apart: bool

    @property
    def swings(self) -> bool:
        return _differ_widely(self.last, self.tail)

    @property
    def leading(self) -> float:
        """The figure to report first."""
        return self.tail if self.tail is not None and self.swings else self.last

    @property
    def confirmed(self) -> bool:
        """Whether the last round and the mean of the last ones have the same sign."""
        return self.tail is None or self.last * self.tail > 0

    @property
    def verdict(self) -> ClientVerdict:
        if self.leading == 0:
            return ClientVerdict.SAME
        sure = self.apart and self.confirmed
        if self.leading > 0:
            return ClientVerdict.GAIN if sure else ClientVerdict.MAYBE_GAIN
        return ClientVerdict.LOSS if sure else ClientVerdict.MAYBE_LOSS


def _differ_widely(last: float, tail: float | None) -> bool:
    return tail is not None and abs(last - tail) >= SWING


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two intervals share a point."""
    return one[0] <= other[1] and other[0] <= one[1]


def compare(before: Standing, after: Standing) -> Difference:
    """Return the gain of `after` over `before`."""
    last = after.last.accuracy - before.last.accuracy
    tail = None if before.tail is None or after.tail is None else after.tail - before.tail
    if _differ_widely(last, tail):
        return Difference(last=last, tail=tail, apart=not overlap(before.usual_interval, after.usual_interval))
    return Difference(last=last, tail=tail, apart=not overlap(before.last.interval, after.last.interval))


def best_of(stands_for: Standing, others: tuple[Standing, ...]) -> Standing:
    """Return the best of the models that are better than `stands_for` beyond chance; otherwise `stands_for`.

    Validation samples decide if there are any, otherwise test samples.
    """
    if stands_for.validation is None:
        better = [one for one in others if compare(stands_for, one).verdict is ClientVerdict.GAIN]
        return max(better, key=lambda one: one.usual, default=stands_for)
    models = {one.name: one for one in (stands_for, *others)}
    choice = choose([Candidate(name=name, validation=one.validation) for name, one in models.items()])
    return models[choice.name] if choice.is_clear else stands_for


def choice_of(alone: Standing, federated: Standing) -> Choice | None:
    """Return the choice between both models on validation samples, as `export` makes it; None without samples."""
    choice = choose(
        [Candidate(name=FEDERATED, validation=federated.validation), Candidate(name=ALONE, validation=alone.validation)]
    )
    return None if choice.difference is None else choice
