"""Advises a participant in words: keep its own model or use the federation's, and why.

One algorithm represents the federation, and its model is recommended unless another one is better here beyond chance.
Which model is better, and how certain that is, `verdict` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedap_core.choosing import difference_interval
from fedap_core.metrics import wilson_interval
from scripts.report.page.verdict import ClientVerdict, Difference, Standing, best_of, compare, overlap
from scripts.report.page.wording import listed, percent, points

COLLAPSE = 0.5
"""Fifty points of recall: a class that falls this far is lost, whatever accuracy says."""

_KEEP = "No gain: keep the local model."
_BEYOND = "The 95 % intervals do not overlap: this is more than chance."
_OVERLAP = "The 95 % intervals overlap: the difference may be chance."
_NAMED = 4
"""Up to this many algorithms that are behind are named; more would be a wall of text."""
_UNCONFIRMED = "The 95 % intervals do not overlap, but the rounds do not agree."


@dataclass(frozen=True, kw_only=True)
class Advice:
    """verdict: for the colour; headline: what to do; detail: why, and how certain; model: the best one here."""

    verdict: ClientVerdict
    headline: str
    detail: str
    model: str = ""


def advise(
    *,
    alone: Standing | None,
    personal: Standing | None,
    others: tuple[Standing, ...] = (),
    average: Standing | None = None,
    classes: Sequence[str] = (),
) -> Advice:
    """Advise one participant. personal: the model that represents the federation; others: further federated models.

    average: the one model for all, FedAvg, which may be among the others. Models that did not run are None. classes:
    names of the classes, for those that the federated model no longer recognises.
    """
    if personal is None:
        return Advice(verdict=ClientVerdict.UNKNOWN, headline="No federated model was evaluated here.", detail="")
    best = best_of(personal, others)
    if alone is None:
        detail = "These runs have no scores of local training, so there is nothing to compare with."
        text = " ".join(filter(None, (detail, _about_best(personal, best, use=False))))
        return Advice(verdict=ClientVerdict.UNKNOWN, headline="The gain is unknown.", detail=text, model=best.name)
    gain = compare(alone, best)
    sentences = [
        _about_best(personal, best, use=gain.verdict is ClientVerdict.GAIN),
        _how_sure(gain, best.name),
        _about_swings(gain),
        _about_collapse(alone, best, classes),
        _about_average(alone, average, best),
    ]
    detail = " ".join(filter(None, sentences))
    return Advice(verdict=gain.verdict, headline=_headline(gain), detail=detail, model=best.name)


def served_best(standings: Sequence[Standing]) -> str:
    """Say which algorithm is most accurate at this participant, and which are not told apart from it; empty with one.

    Uses the 95 % interval of the difference for this number of test samples. Pairing the samples would make it
    narrower, but which samples each model got wrong is not kept.
    """
    if len(standings) < 2:
        return ""
    best = max(standings, key=lambda one: one.usual)
    others = [one for one in standings if one is not best]
    lower = {one.name: difference_interval(best.hits, one.hits)[0] for one in others}
    alike = [one.name for one in others if lower[one.name] <= 0.0]
    behind = sorted((one for one in others if lower[one.name] > 0.0), key=lambda one: -one.usual)
    gaps = [points(best.usual - one.usual) for one in behind]
    named = [f"{one.name} ({gap})" for one, gap in zip(behind, gaps, strict=True)]
    sentences = [f"Most accurate here: {best.name}, {percent(best.usual)}."]
    if alike:
        sentences.append(f"Not told apart from it by these test samples: {listed(alike)}.")
    if 0 < len(behind) <= _NAMED:
        sentences.append(f"Behind it beyond chance: {listed(named)}.")
    elif behind:
        sentences.append(f"Behind it beyond chance: {len(behind)} others, by {gaps[0]} and more.")
    return " ".join(sentences)


def _headline(gain: Difference) -> str:
    if not gain.verdict.is_better:
        return _KEEP
    over = " over the last ten rounds" if gain.swings else " here"
    return f"Federation gains {points(gain.leading)}{over}{'' if gain.verdict is ClientVerdict.GAIN else ', perhaps'}."


def _about_best(personal: Standing, best: Standing, *, use: bool) -> str:
    """Say which model to use, and why if it is not the one that the rest of the report is about."""
    if best is personal:
        return f"Use the model of {best.name}." if use else ""
    ahead = compare(personal, best)
    over = " over the last ten rounds" if ahead.swings else ""
    better = f"{points(ahead.leading)} better than {personal.name} here{over}"
    return f"Use the model of {best.name}: it is {better}." if use else f"{best.name} is {better}, beyond chance."


def _how_sure(gain: Difference, name: str) -> str:
    unsure = _UNCONFIRMED if gain.apart else _OVERLAP
    return {
        ClientVerdict.GAIN: _BEYOND,
        ClientVerdict.MAYBE_GAIN: unsure,
        ClientVerdict.SAME: "Both models are equally accurate.",
        ClientVerdict.MAYBE_LOSS: f"The model of {name} is {points(gain.leading)} behind. {unsure}",
        ClientVerdict.LOSS: f"The model of {name} loses {points(gain.leading)} here. {_BEYOND}",
    }[gain.verdict]


def _about_swings(gain: Difference) -> str:
    return f"The last round is an exception: by itself it shows {points(gain.last, sign=True)}." if gain.swings else ""


def _about_collapse(alone: Standing, best: Standing, classes: Sequence[str]) -> str:
    """Name classes that the local model finds and the federated one loses: accuracy hides rare classes."""
    before, after = alone.last.confusion, best.last.confusion
    if before is None or after is None:
        return ""
    lost = []
    for at, (mine, theirs) in enumerate(zip(before, after, strict=True)):
        if not (sum(mine) and sum(theirs)):
            continue
        found, now = (row[at] / sum(row) for row in (mine, theirs))
        one, other = (wilson_interval(row[at], sum(row)) for row in (mine, theirs))
        if found - now >= COLLAPSE and not overlap(one, other):
            name = classes[at] if at < len(classes) else f"class {at}"
            lost.append(f"{name} ({percent(found, 0)} found alone, {percent(now, 0)} with {best.name})")
    return f"But it loses {', '.join(lost)}: check the mistakes before you use it." if lost else ""


def _about_average(alone: Standing, average: Standing | None, best: Standing) -> str:
    """Say how much accuracy the one model for all costs here, if that is more than chance."""
    if average is None or average is best or compare(alone, average).verdict is not ClientVerdict.LOSS:
        return ""
    return f"FedAvg, one model for all, would cost {points(compare(alone, average).leading)} here."
