"""Advises a participant in words: keep its own model or use the federation's, and why.

One algorithm represents the federation, and its model is recommended unless another one is better here beyond chance.
Which model is better, and how certain that is, `verdict` decides: on validation samples, where they were held back, so
that the advice is what `export` does; otherwise on test samples, and then the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedap_core.choosing import FEDERATED, Choice, difference_interval
from fedap_core.metrics import wilson_interval
from scripts.report.page.verdict import ClientVerdict, Difference, Standing, best_of, choice_of, compare, overlap
from scripts.report.page.wording import listed, percent, points

COLLAPSE = 0.5
"""Fifty points of recall: a class that falls this far is lost, whatever accuracy says."""

_KEEP = "No gain: keep the local model."
_TIE = "No difference: use the federated model."
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
    gain, choice = compare(alone, best), choice_of(alone, best)
    if choice is None:
        verdict, headline = gain.verdict, _headline(gain)
        reasons = [_about_best(personal, best, use=gain.verdict is ClientVerdict.GAIN), _how_sure(gain, best.name)]
    else:
        federated = choice.name == FEDERATED
        verdict, headline = _verdict(choice), f"Use the model of {best.name}." if federated else "Keep the local model."
        reasons = [_about_best(personal, best, use=False), _why(choice, best.name), _on_test(gain, best.name)]
    sentences = [
        *reasons,
        _about_swings(gain),
        _about_collapse(alone, best, classes),
        _about_average(alone, average, best),
        _compared_on(personal, best) if choice is None else "",
    ]
    return Advice(verdict=verdict, headline=headline, detail=" ".join(filter(None, sentences)), model=best.name)


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
    reached = f"{best.name}, {percent(best.usual)}"
    sentences = [f"Most accurate on these test samples: {reached}, an upper estimate for the best of several."]
    if alike:
        sentences.append(f"Not told apart from it: {listed(alike)}.")
    if 0 < len(behind) <= _NAMED:
        sentences.append(f"Behind it beyond chance: {listed(named)}.")
    elif behind:
        sentences.append(f"Behind it beyond chance: {len(behind)} others, by {gaps[0]} and more.")
    return " ".join(sentences)


def _headline(gain: Difference) -> str:
    if not gain.verdict.is_better:
        return _TIE if gain.verdict is ClientVerdict.SAME else _KEEP
    sure = "" if gain.verdict is ClientVerdict.GAIN else ", perhaps"
    return f"Federation gains {points(gain.leading)}{_over(gain) or ' here'}{sure}."


def _over(gain: Difference) -> str:
    return " over the last ten rounds" if gain.swings else ""


def _verdict(choice: Choice) -> ClientVerdict:
    if _is_tie(choice):
        return ClientVerdict.SAME
    if choice.name == FEDERATED:
        return ClientVerdict.GAIN if choice.is_clear else ClientVerdict.MAYBE_GAIN
    return ClientVerdict.LOSS if choice.is_clear else ClientVerdict.MAYBE_LOSS


def _is_tie(choice: Choice) -> bool:
    one, other = (each.validation for each in choice.candidates)
    return one is not None and other is not None and one.accuracy == other.accuracy


def _about_best(personal: Standing, best: Standing, *, use: bool) -> str:
    """Say which model to use, and why if it is not the one that the rest of the report is about."""
    if best is personal:
        return f"Use the model of {best.name}." if use else ""
    if personal.validation is not None:
        return f"{best.name} is better than {personal.name} on validation samples, beyond chance."
    ahead = compare(personal, best)
    better = f"{points(ahead.leading)} better than {personal.name} here{_over(ahead)}"
    return f"Use the model of {best.name}: it is {better}." if use else f"{best.name} is {better}, beyond chance."


def _why(choice: Choice, name: str) -> str:
    """Say what the validation samples, which made the choice, say of both models."""
    parts = [
        f"{name if one.name == FEDERATED else 'the local model'} {percent(one.validation.accuracy)}"
        for one in choice.candidates
        if one.validation is not None
    ]
    samples = next(one.validation.samples for one in choice.candidates if one.validation is not None)
    sure = "this is more than chance" if choice.is_clear else "the difference may be chance"
    ending = "the federated model has preference" if _is_tie(choice) else sure
    return f"Of {samples} validation samples {listed(parts)}: {ending}."


def _on_test(gain: Difference, name: str) -> str:
    """Say what the test samples say, which had no part in the choice; `served_best` says what is beyond chance."""
    if gain.verdict is ClientVerdict.SAME:
        return "On test samples, not used for the choice, both are equally accurate."
    side = "ahead" if gain.leading > 0 else "behind"
    return f"On test samples, not used for the choice, {name} is {points(gain.leading)} {side}{_over(gain)}."


def _compared_on(personal: Standing, best: Standing) -> str:
    if best is personal or personal.validation is not None:
        return "Compared on test samples."
    return f"Compared on test samples, which also selected {best.name}: its gain is an upper estimate."


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
