"""The figures of one algorithm over all its seeds, and what the comparison means in a few plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

from fedap_core.metrics import convergence_round
from scripts.report.page.runs import RoundRecord, Run
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.verdict import Standing, Verdict, compare
from scripts.report.page.wording import counted, listed, percent, points

TAIL_ROUNDS = 10
"""Beside the last round stands the mean of this many: delivered models swing from one round to the next."""

SETTLED = 2 * TAIL_ROUNDS
"""Runs of fewer rounds are still learning in the last ones: these cannot confirm anything."""

WORTH_SAYING = 0.005
"""Half a point between the last round and the last rounds' mean: then both are told."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Shares of 1, means over seeds. spread: standard deviation over seeds; converged: counted from 1.

    selected: at the round that was best on validation samples, where there are any;
    size, size_converged: bytes per participant, both ways, of all rounds and until convergence.
    """

    name: str
    kind: str
    colour: int
    seeds: int
    last: float
    spread: float | None
    tail: float
    worst: float
    converged: float | None
    selected: float | None
    size: float | None
    size_converged: float | None


def headline(algorithm: Algorithm, round_no: int) -> Headline:
    """Everything up to and including the round where algorithms are compared."""
    lasts = [_mean(run.at(round_no)) for run in algorithm.runs]
    ends = [(run, end) for run in algorithm.runs if (end := converged(run, round_no)) is not None]
    selected = [found for run in algorithm.runs if (found := _selected(run, round_no)) is not None]
    sizes = [sent for run in algorithm.runs if (sent := traffic(run, round_no)) is not None]
    early = [sent for run, end in ends if (sent := traffic(run, end - 1)) is not None]
    return Headline(
        name=algorithm.name,
        kind=algorithm.kind,
        colour=algorithm.colour,
        seeds=len(algorithm.runs),
        last=fmean(lasts),
        spread=stdev(lasts) if len(lasts) > 1 else None,
        tail=fmean(_tail(run, round_no) for run in algorithm.runs),
        worst=fmean(_worst(run.at(round_no)) for run in algorithm.runs),
        converged=fmean(end for _, end in ends) if ends else None,
        selected=fmean(selected) if selected else None,
        size=fmean(sizes) if sizes else None,
        size_converged=fmean(early) if early else None,
    )


def curve(run: Run, round_no: int) -> list[tuple[int, float]]:
    """(round from 1, mean accuracy) up to the compared round."""
    return [(record.number + 1, _mean(record)) for record in run.evaluated if record.number <= round_no]


def converged(run: Run, round_no: int) -> int | None:
    """The round, from 1, from which the mean stays within 95 % of its end."""
    shown = curve(run, round_no)
    index = convergence_round([value for _, value in shown])
    return None if index is None else shown[index][0]


def traffic(run: Run, round_no: int) -> float | None:
    """Bytes per participant in both directions, all rounds to this one; computed where nobody counted, or None."""
    rounds = [record for record in run.rounds if record.number <= round_no and (record.up or record.down)]
    if not rounds or not run.clients:
        return None if run.computed is None else run.computed.until(round_no + 1)
    return sum(sum(record.up) + sum(record.down) for record in rounds) / len(run.clients)


def _mean(record: RoundRecord) -> float:
    return record.mean or 0.0


def _tail(run: Run, round_no: int) -> float:
    return fmean(value for number, value in curve(run, round_no) if number > round_no + 1 - TAIL_ROUNDS)


def _selected(run: Run, round_no: int) -> float | None:
    known = [(r.validation, r) for r in run.evaluated if r.number <= round_no and r.validation is not None]
    return _mean(max(known, key=lambda pair: pair[0])[1]) if known else None


def _worst(record: RoundRecord) -> float:
    return min(score.accuracy for score in record.scores if score is not None)


def in_words(study: Study) -> list[str]:
    """What federation changed for these clients, who gained beyond chance, and what else is worth saying."""
    return [*_what_changed(study), *_who_gained(study), *_others(study)]


def _what_changed(study: Study) -> Iterator[str]:
    personal, alone = study.personal, study.alone
    clients = counted(len(study.clients), "client")
    rounds = counted(study.round_no + 1, "round")
    if personal is None:
        only = study.algorithms[0]
        mean = percent(headline(only, study.round_no).last)
        yield f"{only.name} reaches {mean} on average over {clients} after {rounds}."
        return
    reached = f"{personal.name} reaches {percent(headline(personal, study.round_no).last)} on average over {clients}"
    if alone is None:
        yield f"{reached} after {rounds}. Nobody trained alone here, so what federation gained cannot be told."
        return
    change = _paired(personal, alone, study.round_no)
    if change is None:
        yield f"{reached} after {rounds}; everyone alone has other seeds and is not compared."
        return
    if round(100 * change.last, 1) == 0:
        yield f"{reached} after {rounds}: no more and no less than with everyone training alone."
    else:
        side = "more" if change.last > 0 else "fewer"
        steady = study.round_no + 1 < SETTLED or abs(change.last - change.tail) < WORTH_SAYING
        over = "" if steady else f" ({points(change.tail, sign=True)} over the last {TAIL_ROUNDS} rounds)"
        yield f"{reached} after {rounds}: {points(change.last)} {side} than with everyone training alone{over}."


@dataclass(frozen=True, kw_only=True)
class Change:
    """Difference of two means, in the compared round and over the last rounds."""

    last: float
    tail: float


def _paired(one: Algorithm, other: Algorithm, round_no: int) -> Change | None:
    """Mean over the seeds that both have."""
    both = [
        (first, second)
        for seed in sorted(one.seeds & other.seeds)
        if (first := one.run_of(seed)) is not None and (second := other.run_of(seed)) is not None
    ]
    if not both:
        return None
    return Change(
        last=fmean(_mean(first.at(round_no)) - _mean(second.at(round_no)) for first, second in both),
        tail=fmean(_tail(first, round_no) - _tail(second, round_no) for first, second in both),
    )


def verdicts(study: Study) -> list[Verdict]:
    """Per client of the shown seed, where both models were measured: what federation did for it."""
    found = []
    for index in range(len(study.clients)):
        here = standings(study, index)
        alone = here.get(study.alone.name) if study.alone is not None else None
        personal = here.get(study.personal.name) if study.personal is not None else None
        if alone is not None and personal is not None:
            found.append(compare(alone, personal).verdict)
    return found


def client_curve(run: Run, index: int, round_no: int) -> list[tuple[int, float]]:
    """(round from 1, accuracy) of one client up to the compared round."""
    return [
        (record.number + 1, score.accuracy)
        for record in run.evaluated
        if record.number <= round_no and (score := record.scores[index]) is not None
    ]


def standings(study: Study, index: int) -> dict[str, Standing]:
    """Every shown algorithm at one client, by name; without those that were not measured there.

    The tail is the mean over the last rounds that all of them evaluated; None in runs so short that the last rounds
    are the learning itself.
    """
    last = {a.name: score for a, run in study.shown if (score := run.at(study.round_no).scores[index]) is not None}
    lines = {a.name: dict(client_curve(run, index, study.round_no)) for a, run in study.shown if a.name in last}
    common = set.intersection(*map(set, lines.values())) if lines and study.round_no + 1 >= SETTLED else set()
    rounds = sorted(number for number in common if number > study.round_no + 1 - TAIL_ROUNDS)
    return {
        name: Standing(name=name, last=score, tail=fmean(lines[name][at] for at in rounds) if rounds else None)
        for name, score in last.items()
    }


def _who_gained(study: Study) -> Iterator[str]:
    found = verdicts(study)
    if not found:
        return
    better = sum(verdict.is_better for verdict in found)
    surely, worse = found.count(Verdict.GAIN), found.count(Verdict.LOSS)
    sentence = f"{better or 'None'} of {counted(len(found), 'client')} did better with it"
    sentence += f", {surely or 'none'} of them beyond chance" if better else ""
    lost = "nobody lost" if worse == 0 else f"{worse} lost"
    where = f", seed {study.seed}" if len(study.seeds) > 1 else ""
    yield f"{sentence}; {lost} beyond chance (95 % intervals that do not overlap{where})."


def _others(study: Study) -> Iterator[str]:
    if study.personal is None or len(study.algorithms) < 2:
        return
    yield from _best(study)
    heads = [headline(algorithm, study.round_no) for algorithm in study.algorithms]
    own = next(head for head in heads if head.name == study.personal.name)
    average = next((head for head in heads if head.kind == "fedavg"), None)
    if own.converged is not None and average is not None and average.converged is not None and own is not average:
        later = f"FedAvg from round {average.converged:.0f}"
        yield f"{own.name} stays within 95 % of its end from round {own.converged:.0f} on, {later}."


def _best(study: Study) -> Iterator[str]:
    """Who is best, by the seeds that all have; nothing where that is the algorithm told of already."""
    seeds = study.common_seeds
    if not seeds:
        yield "No seed is common to all algorithms: their means are not comparable."
        return
    only = "" if len(seeds) == len(study.seeds) else f" (seed{'s' * (len(seeds) > 1)} {listed(list(map(str, seeds)))})"
    means = {
        algorithm: fmean(_mean(run.at(study.round_no)) for run in algorithm.runs if run.seed in seeds)
        for algorithm in study.algorithms
    }
    best = max(means, key=lambda algorithm: means[algorithm])
    if study.personal is not None and round(means[best], 3) > round(means[study.personal], 3):
        told = f"{study.personal.name} has {percent(means[study.personal])}"
        yield f"Best of all is {best.name} with {percent(means[best])}; {told}{only}."
