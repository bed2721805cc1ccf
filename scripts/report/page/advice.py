"""What a participant should do with the result: keep its own model or take the federation's, and how sure that is.

Both models are measured on the same test samples, but which samples each got wrong is not kept; so a difference counts
as more than chance only where the two 95 % intervals do not overlap, which is on the careful side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scripts.report.page.runs import ClientScore
from scripts.report.page.wording import points

SWING = 0.02
"""Two points between the last round and the mean of the last ones: more than a reader would take for rounding."""


class Verdict(Enum):
    """What federation did for one client."""

    GAIN = "gain"
    MAYBE_GAIN = "maybe-gain"
    SAME = "same"
    MAYBE_LOSS = "maybe-loss"
    LOSS = "loss"
    UNKNOWN = "unknown"

    @property
    def is_better(self) -> bool:
        return self in (Verdict.GAIN, Verdict.MAYBE_GAIN)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """verdict: for the colour; headline: what to do; detail: why, and how sure that is."""

    verdict: Verdict
    headline: str
    detail: str


def overlap(one: ClientScore, other: ClientScore) -> bool:
    """Whether the 95 % intervals share a point."""
    return one.interval[0] <= other.interval[1] and other.interval[0] <= one.interval[1]


def judge(alone: ClientScore, together: ClientScore) -> Verdict:
    """Compare what a client reaches alone with what it reaches together with others."""
    if together.accuracy == alone.accuracy:
        return Verdict.SAME
    if together.accuracy > alone.accuracy:
        return Verdict.MAYBE_GAIN if overlap(alone, together) else Verdict.GAIN
    return Verdict.MAYBE_LOSS if overlap(alone, together) else Verdict.LOSS


def advise(
    *,
    alone: ClientScore | None,
    average: ClientScore | None,
    personal: ClientScore | None,
    name: str,
    tail_gain: float | None = None,
) -> Advice:
    """For one participant. name: of the algorithm that `personal` is; what did not run is None.

    tail_gain: mean gain over the last rounds; where it tells another story than the last round alone, that is said.
    """
    if personal is None:
        return Advice(verdict=Verdict.UNKNOWN, headline="No federated model was measured here.", detail="")
    if alone is None:
        detail = "Nobody trained alone in these runs, so there is nothing to compare with."
        return Advice(verdict=Verdict.UNKNOWN, headline="The gain cannot be told.", detail=detail)
    verdict = judge(alone, personal)
    headline, detail = _words(verdict, points(personal.accuracy - alone.accuracy), name)
    more = _about_average(alone, average, personal, name) + _about_swings(personal.accuracy - alone.accuracy, tail_gain)
    return Advice(verdict=verdict, headline=headline, detail=f"{detail}{more}")


def _words(verdict: Verdict, difference: str, name: str) -> tuple[str, str]:
    chance = "The 95 % intervals overlap: with so few test samples, the difference may be chance."
    sure = "The 95 % intervals do not overlap: this is more than chance."
    words = {
        Verdict.GAIN: (f"Federation gains {difference} here.", f"Use the model of {name}. {sure}"),
        Verdict.MAYBE_GAIN: (
            f"Federation gains {difference} here, perhaps.",
            f"{chance} The model of {name} is the better guess; more test samples would tell.",
        ),
        Verdict.SAME: ("No gain: keep the local model.", "Both models are right equally often."),
        Verdict.MAYBE_LOSS: (
            "No gain: keep the local model.",
            f"The model of {name} is {difference} behind. {chance}",
        ),
        Verdict.LOSS: (
            "No gain: keep the local model.",
            f"The model of {name} loses {difference} here. {sure}",
        ),
    }
    return words[verdict]


def _about_swings(gain: float, tail_gain: float | None) -> str:
    if tail_gain is None or (abs(gain - tail_gain) < SWING and (gain > 0) == (tail_gain > 0)):
        return ""
    mean = points(tail_gain, sign=True)
    return f" Models swing from round to round here: over the last ten rounds the mean difference is {mean}."


def _about_average(alone: ClientScore, average: ClientScore | None, personal: ClientScore, name: str) -> str:
    """What the one model for all does here, where that is more than chance."""
    if average is None or average == personal:
        return ""
    if average.accuracy > personal.accuracy and not overlap(average, personal):
        return f" FedAvg, one model for all, is {points(average.accuracy - personal.accuracy)} better than {name} here."
    if average.accuracy < alone.accuracy and not overlap(average, alone):
        return f" FedAvg, one model for all, would cost {points(alone.accuracy - average.accuracy)} here."
    return ""
