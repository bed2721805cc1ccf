"""What a participant should do with the result: keep its own model or take the federation's, and how sure that is.

Both models are measured on the same test samples, but which samples each got wrong is not kept; so a difference counts
as more than chance only where the two 95 % intervals do not overlap, which is on the careful side. Intervals know
nothing of models that swing from round to round: a difference that the last rounds do not confirm is not more than
chance either.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scripts.report.page.runs import ClientScore
from scripts.report.page.wording import points

SWING = 0.02
"""Two points between the last round and the mean of the last ones: more than a reader would take for rounding."""

_KEEP = "No gain: keep the local model."
_BEYOND = "The 95 % intervals do not overlap: this is more than chance."
_OVERLAP = "The 95 % intervals overlap: the difference may be chance."
_UNCONFIRMED = "The 95 % intervals do not overlap, but other rounds do not confirm the difference."


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


def judge(alone: ClientScore, together: ClientScore, *, tail_gain: float | None = None) -> Verdict:
    """Compare what a client reaches alone with what it reaches together. tail_gain: mean gain over the last rounds."""
    gain = together.accuracy - alone.accuracy
    if gain == 0:
        return Verdict.SAME
    confirmed = tail_gain is None or tail_gain * gain > 0
    sure = confirmed and not overlap(alone, together)
    if gain > 0:
        return Verdict.GAIN if sure else Verdict.MAYBE_GAIN
    return Verdict.LOSS if sure else Verdict.MAYBE_LOSS


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
    verdict = judge(alone, personal, tail_gain=tail_gain)
    gain = personal.accuracy - alone.accuracy
    sentences = [
        _what_and_how_sure(verdict, gain, name, apart=not overlap(alone, personal)),
        _about_swings(verdict, gain, tail_gain, name),
        _about_average(alone, average, personal, name),
    ]
    headline = _headline(verdict, gain, tail_gain)
    return Advice(verdict=verdict, headline=headline, detail=" ".join(filter(None, sentences)))


def _headline(verdict: Verdict, gain: float, tail_gain: float | None) -> str:
    if verdict is Verdict.GAIN and tail_gain is not None and abs(gain - tail_gain) >= SWING:
        return f"Federation gains {points(gain)} in the last round, {points(tail_gain)} over the last ten."
    if verdict is Verdict.GAIN:
        return f"Federation gains {points(gain)} here."
    return f"Federation gains {points(gain)} here, perhaps." if verdict is Verdict.MAYBE_GAIN else _KEEP


def _what_and_how_sure(verdict: Verdict, gain: float, name: str, *, apart: bool) -> str:
    unsure = _UNCONFIRMED if apart else _OVERLAP
    return {
        Verdict.GAIN: f"Use the model of {name}. {_BEYOND}",
        Verdict.MAYBE_GAIN: unsure,
        Verdict.SAME: "Both models are right equally often.",
        Verdict.MAYBE_LOSS: f"The model of {name} is {points(gain)} behind. {unsure}",
        Verdict.LOSS: f"The model of {name} loses {points(gain)} here. {_BEYOND}",
    }[verdict]


def _about_swings(verdict: Verdict, gain: float, tail_gain: float | None, name: str) -> str:
    if tail_gain is None or (abs(gain - tail_gain) < SWING and gain * tail_gain >= 0):
        return ""
    if verdict is Verdict.GAIN:  # the headline has both figures
        return "Models swing from round to round here."
    side = "ahead of" if tail_gain > 0 else "behind"
    return f"Models swing here: over the last ten rounds, {name} is {points(tail_gain)} {side} the local model."


def _about_average(alone: ClientScore, average: ClientScore | None, personal: ClientScore, name: str) -> str:
    """What the one model for all does here, where that is more than chance."""
    if average is None or average == personal:
        return ""
    if average.accuracy > personal.accuracy and not overlap(average, personal):
        return f"FedAvg, one model for all, is {points(average.accuracy - personal.accuracy)} better than {name} here."
    if average.accuracy < alone.accuracy and not overlap(average, alone):
        return f"FedAvg, one model for all, would cost {points(alone.accuracy - average.accuracy)} here."
    return ""
