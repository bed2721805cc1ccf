"""Computes a run's results: last round, last ten rounds, convergence, worst client, and differences to others. The
only place where these are defined; tables, figures, pages and the Python API only show them.

Pure: records in, numbers out, as fractions of 1. Means weight every client equally. Nothing is chosen by test accuracy:
the headline is the last round and the mean of the last ten, never the best round.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.choosing import ALONE, BEST, FEDERATED, Candidate, choose
from fedap_core.errors import InvalidInput
from fedap_core.metrics import QUALITIES, convergence_round
from protocol.plan import TAIL_ROUNDS
from scripts.run.chance import EXACT, PairedDifference, paired
from scripts.run.records import RoundRecord

SETTLED = 2 * TAIL_ROUNDS
"""Runs with fewer rounds still learn during their last ten: their clients are compared by the last round alone."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One run up to a round.

    last: mean test accuracy of that round; tail: its mean over the last ten; converged: the round (from 1) from which
    the curve stays at or above 95 % of its final value; selected: mean test accuracy in the best validation round, if
    there is a validation split; delivered: mean accuracy of the last round's models as delivered, if others are handed
    over; qualities: means in the last round by the names in `metrics.QUALITIES`, over the clients for which each is
    defined, without those that no client has; per_client, client_tails: every client's accuracy in the last round and
    its mean over the last ten, NaN if not measured; curve: (round from 0, mean accuracy) of every evaluated round.
    """

    algorithm: str
    seed: int
    rounds: int
    last: float
    tail: float
    converged: int | None
    per_client: tuple[float, ...]
    curve: tuple[tuple[int, float], ...]
    selected: float | None = None
    delivered: float | None = None
    qualities: Mapping[str, float] = field(default_factory=dict)
    client_tails: tuple[float, ...] = ()
    same_clients: bool = False
    """Whether other seeds have the same clients, with the same samples for testing."""
    candidates: tuple[Candidate, ...] = ()
    """Every client's model of the last round, for the choice between models; empty without validation samples."""

    @property
    def worst(self) -> float:
        """Accuracy of the least accurate client in the last round."""
        return float(np.nanmin(self.per_client))

    @property
    def tenth_percentile(self) -> float:
        """Nine of ten clients are about this accurate, or more, in the last round; interpolated."""
        return float(np.nanpercentile(self.per_client, 10))

    @property
    def compared(self) -> FloatArray:
        """What clients are compared by: their mean over the last ten rounds, or the last round of a short run."""
        settled = self.rounds >= SETTLED and self.client_tails
        return np.asarray(self.client_tails if settled else self.per_client, dtype=np.float64)


def summarise(
    records: Sequence[RoundRecord], *, algorithm: str, seed: int, rounds: int, same_clients: bool = False
) -> Summary:
    """Summarise the evaluated rounds among the first `rounds`; raises InvalidInput if there are none."""
    evaluated = [record for record in records if record.number < rounds and record.mean is not None]
    if not evaluated:
        raise InvalidInput("run", f"{algorithm}, seed {seed}", "at least one evaluated round")
    curve = [(record.number, record.mean or 0.0) for record in evaluated]
    tail = [record for record in evaluated if record.number >= rounds - TAIL_ROUNDS] or evaluated[-1:]
    index = convergence_round([value for _, value in curve])
    known = [(found, one.mean) for one in evaluated if (found := one.mean_of("validation")) is not None]
    return Summary(
        algorithm=algorithm,
        seed=seed,
        rounds=rounds,
        last=curve[-1][1],
        tail=fmean(record.mean or 0.0 for record in tail),
        converged=None if index is None else curve[index][0] + 1,
        per_client=tuple(_accuracies(evaluated[-1])),
        curve=tuple(curve),
        selected=max(known, key=lambda pair: pair[0])[1] if known else None,
        delivered=mean_or_none([one.accuracy for one in evaluated[-1].delivered.get("test", ()) if one is not None]),
        qualities=_qualities(evaluated[-1]),
        client_tails=_known_means([_accuracies(record) for record in tail]),
        same_clients=same_clients,
        candidates=_candidates(evaluated[-1], algorithm),
    )


def _candidates(record: RoundRecord, algorithm: str) -> tuple[Candidate, ...]:
    name = ALONE if is_alone(algorithm) else FEDERATED
    both = zip(record.splits.get("validation", ()), record.scores, strict=False)
    return tuple(Candidate(name=name, validation=held, test=tested) for held, tested in both)


def _accuracies(record: RoundRecord) -> list[float]:
    return [np.nan if value is None else value for value in record.values("accuracy")]


def _known_means(rows: list[list[float]]) -> tuple[float, ...]:
    """Return the mean of every column over the rounds in which that client was measured."""
    with warnings.catch_warnings():  # a client that was never measured has no mean
        warnings.simplefilter("ignore", RuntimeWarning)
        return tuple(np.nanmean(np.asarray(rows), axis=0).tolist())


def _qualities(record: RoundRecord) -> dict[str, float]:
    """Return means over the clients for which each quality is defined: AUROC is not with samples of one class only."""
    known = {name: [value for value in record.values(name) if value is not None] for name in QUALITIES}
    return {name: fmean(values) for name, values in known.items() if values}


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Means of one algorithm over its seeds. deviation: standard deviation of `last` over seeds, None with one seed.

    converged, selected, delivered: None if they are missing for any seed; qualities: those that every seed has.
    """

    algorithm: str
    seeds: int
    last: float
    deviation: float | None
    tail: float
    worst: float
    tenth_percentile: float
    converged: float | None
    selected: float | None
    delivered: float | None
    qualities: Mapping[str, float]
    tail_rounds: int = TAIL_ROUNDS
    """Number of rounds that `tail` averages: ten, or all rounds of a shorter run."""


def headline(runs: Sequence[Summary]) -> Headline:
    """Average the runs of one algorithm over their seeds."""
    return Headline(
        algorithm=runs[0].algorithm,
        seeds=len(runs),
        last=fmean(run.last for run in runs),
        deviation=stdev(run.last for run in runs) if len(runs) > 1 else None,
        tail=fmean(run.tail for run in runs),
        worst=fmean(run.worst for run in runs),
        tenth_percentile=fmean(run.tenth_percentile for run in runs),
        converged=mean_or_none([run.converged for run in runs]),
        selected=mean_or_none([run.selected for run in runs]),
        delivered=mean_or_none([run.delivered for run in runs]),
        qualities={
            name: fmean(run.qualities[name] for run in runs)
            for name in QUALITIES
            if all(name in run.qualities for run in runs)
        },
        tail_rounds=min(TAIL_ROUNDS, *(run.rounds for run in runs)),
    )


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if any value is missing, because the mean of the rest would answer another question."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def by_algorithm(runs: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Group the runs of one comparison by algorithm, in the order of first appearance."""
    found: dict[str, list[Summary]] = {}
    for run in runs:
        found.setdefault(run.algorithm, []).append(run)
    return found


# ---- differences


def difference(ours: Sequence[Summary], others: Sequence[Summary]) -> PairedDifference | None:
    """Return the difference over the clients and seeds that both have; None if there are none."""
    gaps = _gaps(ours, others)
    count = int(np.isfinite(gaps).sum())
    if gaps.size and all(run.same_clients for run in (*ours, *others)):
        return paired(known_means(gaps), pairs=count)
    return paired(gaps[np.isfinite(gaps)], pairs=count)


def is_alone(algorithm: str) -> bool:
    """Whether this is the algorithm without a federation, in which every client trains alone."""
    return algorithm.lower() == "base"


def worse_off(ours: Sequence[Summary], alone: Sequence[Summary]) -> float | None:
    """Return the share of clients, over all common seeds, that are less accurate than when training alone (Base)."""
    gaps = _gaps(ours, alone)
    known = gaps[np.isfinite(gaps)]
    return float((known < -EXACT).mean()) if known.size else None


def _gaps(ours: Sequence[Summary], others: Sequence[Summary]) -> FloatArray:
    """(seeds, clients): differences for the seeds that both have, NaN for clients that were not measured in both."""
    theirs = {run.seed: run.compared for run in others}
    both = [run.compared - theirs[run.seed] for run in ours if run.seed in theirs]
    return np.stack(both) if both else np.empty((0, 0))


def known_means(rows: FloatArray) -> FloatArray:
    """Return the mean over the first axis of what is known, without the columns of which nothing is."""
    return np.asarray(np.nanmean(rows[:, np.isfinite(rows).any(axis=0)], axis=0), dtype=np.float64)


def with_choice(ours: Sequence[Summary], alone: Sequence[Summary]) -> float | None:
    """Return the last round's mean test accuracy if every client keeps whichever is better on its validation samples,
    this algorithm's model or its own, and without validation samples the algorithm's; over the seeds that both have,
    None if no validation samples were held back."""
    theirs = {run.seed: run.candidates for run in alone}
    pairs = [pair for run in ours for pair in zip(run.candidates, theirs.get(run.seed, ()), strict=False)]
    can_choose = [all(one.validation is not None for one in pair) for pair in pairs]
    if not any(can_choose):
        return None
    kept = [choose(pair).of(BEST).test if can else pair[0].test for pair, can in zip(pairs, can_choose, strict=True)]
    return mean_or_none([None if one is None else one.accuracy for one in kept])


@dataclass(frozen=True, kw_only=True)
class Position:
    """One algorithm relative to the others of a comparison.

    to_best: its difference to the algorithm with the highest mean of the compared values, None for that one itself;
    to_alone, worse_off: against every client training alone, None if that was not run; with_choice: mean accuracy if
    clients keep the better of both models by their validation samples, None without validation samples.
    """

    algorithm: str
    to_best: PairedDifference | None
    to_alone: PairedDifference | None
    worse_off: float | None
    with_choice: float | None = None


def positions(runs: Sequence[Summary], *, alone: str = "") -> list[Position]:
    """Return the position of every algorithm of one comparison, over the seeds that each pair has in common.

    alone: the algorithm without a federation; by default the one named base.
    """
    groups = by_algorithm(runs)
    alone = alone or next((name for name in groups if is_alone(name)), "")
    best = max(groups, key=lambda name: fmean(float(np.nanmean(run.compared)) for run in groups[name]))
    base = groups.get(alone, [])
    return [
        Position(
            algorithm=name,
            to_best=None if name == best else difference(own, groups[best]),
            to_alone=None if name == alone else difference(own, base),
            worse_off=None if name == alone else worse_off(own, base),
            with_choice=None if name == alone else with_choice(own, base),
        )
        for name, own in groups.items()
    ]
