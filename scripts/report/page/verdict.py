"""Whether one model is better than another for one client, and how sure that is.

Both are measured on the same test samples, but which samples each got wrong is not kept. So a difference is more than
chance only where the two 95 % intervals do not overlap, which is on the careful side. Intervals know nothing of models
that swing from round to round: where the last round and the mean of the last ones differ widely, the mean decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fedap_core.choosing import HitCount
from scripts.run.records import ClientScore

SWING = 0.02
"""Two points between the last round and the mean of the last ones: more than a reader would take for rounding."""


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
    """One algorithm at one client. tail: mean accuracy over the last rounds; None in runs too short for one."""

    name: str
    last: ClientScore
    tail: float | None = None

    @property
    def usual(self) -> float:
        """The accuracy that one round does not change."""
        return self.last.accuracy if self.tail is None else self.tail

    @property
    def hits(self) -> HitCount:
        """The same as a count of the test samples, which all rounds have in common."""
        return HitCount(correct=round(self.usual * self.last.samples), samples=self.last.samples)

    @property
    def usual_interval(self) -> tuple[float, float]:
        """95 % interval around it: as wide as that of one round, since all rounds have the same samples."""
        return self.hits.interval


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of one model over another. last, tail: in shares; apart: whether the intervals of what leads do not overlap."""

    last: float
    tail: float | None
    apart: bool

    @property
    def swings(self) -> bool:
        return _differ_widely(self.last, self.tail)

    @property
    def leading(self) -> float:
        """The figure to tell first."""
        return self.tail if self.tail is not None and self.swings else self.last

    @property
    def confirmed(self) -> bool:
        """Whether the last round and the last ones take the same side."""
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
    """What `after` has over `before`."""
    last = after.last.accuracy - before.last.accuracy
    tail = None if before.tail is None or after.tail is None else after.tail - before.tail
    if _differ_widely(last, tail):
        return Difference(last=last, tail=tail, apart=not overlap(before.usual_interval, after.usual_interval))
    return Difference(last=last, tail=tail, apart=not overlap(before.last.interval, after.last.interval))


def best_of(stands_for: Standing, others: tuple[Standing, ...]) -> Standing:
    """The best of the models that are surely better than the one that stands for the federation; else that one."""
    better = [one for one in others if compare(stands_for, one).verdict is ClientVerdict.GAIN]
    return max(better, key=lambda one: one.usual, default=stands_for)
