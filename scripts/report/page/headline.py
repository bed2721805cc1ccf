"""Gives the figures of one algorithm over all its seeds, and the meaning of the comparison in a few plain sentences.

`results` defines the figures; this module puts them beside costs and other algorithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from fedap_core.similarity import strangers
from protocol.plan import TAIL_ROUNDS
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.verdict import ClientVerdict, Standing, compare
from scripts.report.page.wording import counted, listed, percent, points
from scripts.run.records import Run
from scripts.run.results import SETTLED, Headline, Position, difference, headline, mean_or_none

WORTH_SAYING = 0.005
"""If the last round and the mean of the last rounds differ by at least half a point, both are given."""


@dataclass(frozen=True, kw_only=True)
class AlgorithmRow:
    """One algorithm's row of the table. size, size_converged: bytes per participant in both directions, over all rounds
    and until convergence; None if not known."""

    name: str
    kind: str
    colour: int
    figures: Headline
    position: Position
    size: float | None
    size_converged: float | None


def algorithm_row(study: Study, algorithm: Algorithm) -> AlgorithmRow:
    """Return one algorithm's row, up to and including the round at which algorithms are compared."""
    runs = study.summaries[algorithm.name]
    ends = [run.converged for run in runs]
    early = [None if end is None else traffic(run, end - 1) for run, end in zip(algorithm.runs, ends, strict=True)]
    return AlgorithmRow(
        name=algorithm.name,
        kind=algorithm.kind,
        colour=algorithm.colour,
        figures=headline(runs),
        position=next(one for one in study.positions if one.algorithm == algorithm.name),
        size=mean_or_none([traffic(run, study.round_no) for run in algorithm.runs]),
        size_converged=mean_or_none(early),
    )


def traffic(run: Run, round_no: int) -> float | None:
    """Return bytes per participant in both directions up to this round: counted, else computed, else None."""
    rounds = [record for record in run.rounds if record.number <= round_no and (record.up or record.down)]
    if not rounds or not run.clients:
        return None if run.computed is None else run.computed.until(round_no + 1)
    return sum(sum(record.up) + sum(record.down) for record in rounds) / len(run.clients)


def in_words(study: Study) -> list[str]:
    """Say what federation changed for these clients, who gained beyond chance, and what else is notable."""
    return [*_what_changed(study), *_who_gained(study), *_how_sure(study), *_strangers(study), *_others(study)]


def _strangers(study: Study) -> Iterator[str]:
    """Name clients whose statistics, from which W is computed, resemble nobody else's."""
    run = None if study.personal is None else next((r for r in study.personal.runs if r.seed == study.seed), None)
    if run is None or run.mixing is None:
        return
    least = float(run.options.get("min_similarity", 0.0))
    for name, similarity in strangers(run.clients, run.mixing.similarity, least):
        yield f"{name} differs from all other clients: similarity {similarity:.2f} to the most similar one (1: equal)."


def _what_changed(study: Study) -> Iterator[str]:
    personal, alone = study.personal, study.alone
    clients = counted(len(study.clients), "client")
    rounds = counted(study.round_no + 1, "round")
    if personal is None:
        only = study.algorithms[0]
        mean = percent(headline(study.summaries[only.name]).last)
        yield f"{only.name} reaches {mean} on average over {clients} after {rounds}."
        return
    reached = (
        f"{personal.name} reaches {percent(headline(study.summaries[personal.name]).last)} on average over {clients}"
    )
    if alone is None:
        yield f"{reached} after {rounds}. These runs have no scores of local training: the gain is unknown."
        return
    change = _change(study, personal, alone)
    if change is None:
        yield f"{reached} after {rounds}; everyone alone has other seeds and is not compared."
        return
    last, tail = change
    if round(100 * last, 1) == 0:
        yield f"{reached} after {rounds}: the same as with everyone training alone."
    else:
        side = "more" if last > 0 else "fewer"
        steady = study.round_no + 1 < SETTLED or abs(last - tail) < WORTH_SAYING
        over = "" if steady else f" ({points(tail, sign=True)} over the last {TAIL_ROUNDS} rounds)"
        yield f"{reached} after {rounds}: {points(last)} {side} than with everyone training alone{over}."


def _change(study: Study, one: Algorithm, other: Algorithm) -> tuple[float, float] | None:
    """Return the difference of the means in the compared round and over the last rounds, over the seeds that both
    have and, in each, over the clients measured in both."""
    theirs = {run.seed: run for run in study.summaries[other.name]}
    both = [(run, theirs[run.seed]) for run in study.summaries[one.name] if run.seed in theirs]
    if not both:
        return None
    return (
        fmean(_gap(first.per_client, second.per_client) for first, second in both),
        fmean(_gap(first.client_tails, second.client_tails) for first, second in both),
    )


def _gap(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return float(np.nanmean(np.asarray(ours) - np.asarray(theirs)))


def verdicts(study: Study) -> list[ClientVerdict]:
    """Return what federation did for each client of the shown seed for which both models were measured."""
    found = []
    for index in range(len(study.clients)):
        here = standings(study, index)
        alone = here.get(study.alone.name) if study.alone is not None else None
        personal = here.get(study.personal.name) if study.personal is not None else None
        if alone is not None and personal is not None:
            found.append(compare(alone, personal).verdict)
    return found


def client_curve(run: Run, index: int, round_no: int) -> list[tuple[int, float]]:
    """Return (round from 1, accuracy) of one client up to the compared round."""
    return [
        (record.number + 1, score.accuracy)
        for record in run.evaluated
        if record.number <= round_no and (score := record.scores[index]) is not None
    ]


def standings(study: Study, index: int) -> dict[str, Standing]:
    """Return every shown algorithm's standing at one client, by name, without those not measured there.

    The tail is the mean over the last rounds that all of them evaluated; None in runs so short that they still learn in
    the last rounds.
    """
    last = {algorithm.name: score for algorithm, score in study.scores(index)}
    held = {algorithm.name: score for algorithm, score in study.scores(index, "validation")}
    lines = {a.name: dict(client_curve(run, index, study.round_no)) for a, run in study.shown if a.name in last}
    common = set.intersection(*map(set, lines.values())) if lines and study.round_no + 1 >= SETTLED else set()
    rounds = sorted(number for number in common if number > study.round_no + 1 - TAIL_ROUNDS)
    tails = {name: fmean(line[at] for at in rounds) for name, line in lines.items()} if rounds else {}
    return {
        name: Standing(name=name, last=score, tail=tails.get(name), validation=held.get(name))
        for name, score in last.items()
    }


def _who_gained(study: Study) -> Iterator[str]:
    found = verdicts(study)
    if not found:
        return
    better = sum(verdict.is_better for verdict in found)
    surely, worse = found.count(ClientVerdict.GAIN), found.count(ClientVerdict.LOSS)
    sentence = f"{better or 'None'} of {counted(len(found), 'client')} did better with it"
    share = "all" if surely == better > 1 else surely or "none"
    sentence += f", {share} of them beyond chance" if better else ""
    lost = "nobody lost" if worse == 0 else f"{worse} lost"
    where = f", seed {study.seed}" if len(study.seeds) > 1 else ""
    yield f"{sentence}; {lost} beyond chance (95 % intervals that do not overlap{where})."


def _how_sure(study: Study) -> Iterator[str]:
    """Give the paired difference to every client training alone, with its interval."""
    if study.personal is None or study.alone is None:
        return
    found = difference(study.summaries[study.personal.name], study.summaries[study.alone.name])
    if found is not None and found.is_bounded:
        over = f"Over the last {TAIL_ROUNDS} rounds" if study.round_no + 1 >= SETTLED else "In the last round"
        by = (
            f"{points(found.mean)} {found.verdict} than" if found.verdict != "not told apart" else "not told apart from"
        )
        low, high = (points(end, sign=True).partition(" ")[0] for end in (found.low, found.high))
        yield (
            f"{over} {study.personal.name} is {by} training alone "
            f"(95 % interval {low} to {high} points, {found.pairs} pairs of client and seed)."
        )


def _others(study: Study) -> Iterator[str]:
    if study.personal is None or len(study.algorithms) < 2:
        return
    yield from _best(study)
    average = study.plain("fedavg")
    if average is None or average is study.personal:
        return
    ours, theirs = (headline(study.summaries[one.name]).converged for one in (study.personal, average))
    if ours is not None and theirs is not None:
        later = f"FedAvg from round {theirs:.0f}"
        yield f"{study.personal.name} stays at or above 95 % of its final accuracy from round {ours:.0f} on, {later}."


def _best(study: Study) -> Iterator[str]:
    """Say which algorithm is best over the common seeds; nothing if that is the one already described."""
    seeds = study.common_seeds
    if not seeds:
        yield "No seed is common to all algorithms: their means are not comparable."
        return
    only = "" if len(seeds) == len(study.seeds) else f" (seed{'s' * (len(seeds) > 1)} {listed(list(map(str, seeds)))})"
    means = {
        algorithm: fmean(run.last for run in study.summaries[algorithm.name] if run.seed in seeds)
        for algorithm in study.algorithms
    }
    best = max(means, key=lambda algorithm: means[algorithm])
    if study.personal is not None and round(means[best], 3) > round(means[study.personal], 3):
        personal = f"{study.personal.name} has {percent(means[study.personal])}"
        yield f"The best is {best.name} with {percent(means[best])}; {personal}{only}."
