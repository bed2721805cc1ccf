"""Combines runs into one comparison: which algorithms and seeds there are, and at which round they are compared.

Rules: all runs have the same clients; algorithms are compared at the last round that all of them evaluated, never at
different rounds; unfinished runs are left out and named. Draws nothing and writes no text for the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES
from scripts.report.algorithms import place
from scripts.report.page.wording import algorithm_name, counted, listed
from scripts.run.clusters import MOST_DRAWN
from scripts.run.records import ClientScore, Run
from scripts.run.results import Position, Summary, positions, summarise

PERSONAL = ("fedap-plus", "fedap", "f-fedap", "d-fedap", "fedbn", "fedper")
"""Which personalised algorithm represents the federation: the first of these that ran, never the one that won; without
any of them, the first of the others."""

ONE_MODEL = ("fedavg", "fedprox")
"""One model for all: represents the federation only if nothing personalised ran."""

MOST_LISTED = 50
"""Number of clients that a page lists if it cannot list all."""

_NOT_IN_A_LABEL = frozenset({"algorithm", "seed", "rounds", "evaluate_every", "threads", "device", "model", "run"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Algorithm:
    """All seeds of one algorithm. colour: the number of its style; kind: its name without options."""

    kind: str
    name: str
    colour: int
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> frozenset[int]:
        return frozenset(run.seed for run in self.runs)

    def run_of(self, seed: int) -> Run | None:
        return next((run for run in self.runs if run.seed == seed), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """One comparison. round_no: the round at which everything is compared, from 0; seed: the one whose clients have
    pages."""

    algorithms: tuple[Algorithm, ...]
    round_no: int
    seed: int
    notes: tuple[str, ...]

    @cached_property
    def summaries(self) -> dict[str, list[Summary]]:
        """By algorithm: one summary for each of its runs, up to the compared round."""
        return {
            one.name: [
                summarise(
                    run.rounds,
                    algorithm=one.name,
                    seed=run.seed,
                    rounds=self.round_no + 1,
                    same_clients=run.same_clients,
                )
                for run in one.runs
            ]
            for one in self.algorithms
        }

    @cached_property
    def positions(self) -> list[Position]:
        """Every algorithm relative to the best and to every client training alone."""
        everything = [run for runs in self.summaries.values() for run in runs]
        return positions(everything, alone="" if self.alone is None else self.alone.name)

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for algorithm in self.algorithms for run in algorithm.runs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def common_seeds(self) -> tuple[int, ...]:
        """Seeds that every algorithm has: means may be compared only over these."""
        return tuple(sorted(frozenset.intersection(*(algorithm.seeds for algorithm in self.algorithms))))

    @property
    def shown(self) -> tuple[tuple[Algorithm, Run], ...]:
        """The runs of the seed whose clients have pages."""
        found = ((algorithm, algorithm.run_of(self.seed)) for algorithm in self.algorithms)
        return tuple((algorithm, run) for algorithm, run in found if run is not None)

    def scores(self, client: int, split: str = "test") -> tuple[tuple[Algorithm, ClientScore], ...]:
        """Return a client's score in the compared round under every shown algorithm that was measured there."""
        splits = ((algorithm, run.at(self.round_no).splits.get(split, ())) for algorithm, run in self.shown)
        found = ((algorithm, scores[client]) for algorithm, scores in splits if scores)
        return tuple((algorithm, score) for algorithm, score in found if score is not None)

    @property
    def clients(self) -> tuple[str, ...]:
        return self.shown[0][1].clients

    @cached_property
    def listed(self) -> tuple[int, ...]:
        """Clients that are listed and have pages: all, or if there are many, those with the lowest accuracy."""
        everybody = range(len(self.clients))
        run = None if self.personal is None else self.personal.run_of(self.seed)
        if len(everybody) <= MOST_DRAWN or run is None:
            return tuple(everybody)[:MOST_DRAWN]
        scores = run.at(self.round_no).scores
        accuracy = {index: score.accuracy for index, score in enumerate(scores) if score is not None}
        return tuple(sorted(sorted(accuracy, key=lambda index: accuracy[index])[:MOST_LISTED]))

    @cached_property
    def anchors(self) -> list[str]:
        """Each client's anchor in the page."""
        return anchors(self.clients)

    @property
    def ordered(self) -> list[int]:
        """The listed clients in natural order: subject-2 before subject-10."""
        return [index for index in natural_order(self.clients) if index in self.listed]

    def plain(self, kind: str) -> Algorithm | None:
        """Return the algorithm of this name, preferably without options."""
        found = [algorithm for algorithm in self.algorithms if algorithm.kind == kind]
        return min(found, key=lambda one: len(one.runs[0].options), default=None)

    @property
    def alone(self) -> Algorithm | None:
        return self.plain("base")

    @property
    def personal(self) -> Algorithm | None:
        """The algorithm that represents the federation in advice."""
        others = [a.kind for a in self.algorithms if a.kind not in ("base", *PERSONAL, *ONE_MODEL)]
        return next(filter(None, map(self.plain, (*PERSONAL, *others, *ONE_MODEL))), None)


def make_study(runs: Sequence[Run]) -> Study:
    """Combine these runs into a comparison; raises InvalidInput if they do not form one."""
    notes: list[str] = []
    kept = list(_ready(runs, notes))
    _require_same_clients(kept)
    algorithms = tuple(_algorithms(kept, notes))
    kept = [run for algorithm in algorithms for run in algorithm.runs]
    common = set.intersection(*({record.number for record in run.evaluated} for run in kept))
    if not common:
        raise InvalidInput("runs", listed([run.source for run in kept]), "runs that evaluated at least one same round")
    round_no = max(common)
    longer = [run for run in kept if run.evaluated[-1].number > round_no]
    if longer:
        names = listed(list(dict.fromkeys(algorithm_name(run.algorithm, run.options) for run in longer)))
        notes.append(f"All figures are those of round {round_no + 1}, the last that every run has; {names} ran longer.")
    seeds = sorted({run.seed for run in kept})
    seed = min(seeds, key=lambda one: (-sum(run.seed == one for run in kept), one))
    if len(seeds) > 1:
        notes.append(f"Means are over {len(seeds)} seeds; W, clients and their pages are those of seed {seed}.")
    if len({algorithm.seeds for algorithm in algorithms}) > 1:
        notes.append("Not every algorithm has every seed: means over different seeds must not be compared.")
    if len(kept[0].clients) > MOST_DRAWN:
        few = (
            f"the {MOST_LISTED} with the lowest accuracy are listed; rounds.jsonl and the csv of a comparison have all"
        )
        notes.append(f"Of {len(kept[0].clients)} clients, {few}.")
    notes += dict.fromkeys(note for run in kept for note in run.notes)
    return Study(algorithms=algorithms, round_no=round_no, seed=seed, notes=tuple(notes))


def _ready(runs: Sequence[Run], notes: list[str]) -> Iterator[Run]:
    if not runs:
        raise InvalidInput("runs", "none", "at least one run")
    ready = [run for run in runs if run.is_finished] or [run for run in runs if run.evaluated]
    if not ready:
        raise InvalidInput("runs", listed([run.source for run in runs]), "a run with at least one evaluated round")
    waiting = [run.source for run in runs if run not in ready]
    if waiting:
        notes.append(f"Left out, because not finished: {listed(waiting)}.")
    if not ready[0].is_finished:
        notes.append(f"Unfinished: {counted(len(ready), 'run')} had not reached the last round when this was written.")
    yield from ready


def _require_same_clients(runs: Sequence[Run]) -> None:
    keys = sorted({key for run in runs for key in run.settings if key.startswith("cohort.")})
    for key in keys:
        values = sorted({run.settings[key] for run in runs if key in run.settings})
        if len(values) > 1:
            name = key.rpartition(".")[2]
            fix = f"Choose one: --where {name}={values[0]}"
            raise InvalidInput("runs", f"{key} = {listed(values)}", "runs of one comparison", fix)
    if len({run.clients for run in runs}) > 1:
        raise InvalidInput(
            "runs", "different clients", "runs with the same clients", "Name the runs of one comparison."
        )
    models = sorted({run.settings["model"] for run in runs if "model" in run.settings})
    if len(models) > 1:
        fix = f"Choose one: --where model={models[0]}"
        raise InvalidInput("runs", f"model = {listed(models)}", "runs of one comparison", fix)


def _algorithms(runs: Sequence[Run], notes: list[str]) -> Iterator[Algorithm]:
    """Group runs by what is compared: the algorithm, its options, and any other setting that differs between runs."""
    differing = _differing(runs)
    twins: list[str] = []
    groups: dict[tuple[str, str], dict[int, Run]] = {}
    for run in runs:
        also = {key.rpartition(".")[2]: run.settings[key] for key in differing if key in run.settings}
        name = algorithm_name(run.algorithm, {**run.options, **also})
        group = groups.setdefault((run.algorithm, name), {})
        before = group.setdefault(run.seed, run)
        if before is not run:  # of two equal runs, keep the longer
            longer = max(before, run, key=lambda one: one.evaluated[-1].number)
            group[run.seed] = longer
            twins.append((run if longer is before else before).source)
    if twins:
        notes.append(f"Left out, because another run has the same algorithm, settings and seed: {listed(twins)}.")
    ordered = sorted(groups, key=lambda one: (place(one[0]), one[0], _options(groups[one]), one[1]))
    reserved = {place(kind) for kind, _ in ordered}
    free = (number for number in count(len(STRATEGIES)) if number not in reserved)
    taken: set[int] = set()
    for kind, name in ordered:
        colour = next(free) if place(kind) in taken else place(kind)
        taken.add(colour)
        members = tuple(run for _, run in sorted(groups[kind, name].items()))
        yield Algorithm(kind=kind, name=name, colour=colour, runs=members)


def _options(runs: Mapping[int, Run]) -> int:
    """Return how many options were set: the algorithm without options comes first and gets the colour of its kind."""
    return min(len(run.options) for run in runs.values())


def _differing(runs: Sequence[Run]) -> list[str]:
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    compared = [key for key in keys if key not in _NOT_IN_A_LABEL and not key.startswith(("options.", "cohort."))]
    return [key for key in compared if len({run.settings[key] for run in runs if key in run.settings}) > 1]


def anchors(names: Sequence[str]) -> list[str]:
    """Return each client's anchor: client-NAME, unique, with only characters that need no quoting."""
    made: dict[str, None] = {}
    for name in names:
        plain = f"client-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name).strip('-') or 'unnamed'}"
        number, anchor = 1, plain
        while anchor in made:
            number += 1
            anchor = f"{plain}-{number}"
        made[anchor] = None
    return list(made)


def natural_order(names: Sequence[str]) -> list[int]:
    """Return the indices of the names in natural order: subject-2 before subject-10."""

    def key(index: int) -> list[tuple[int, int, str]]:
        pieces = re.findall(r"\d+|\D+", names[index])
        return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces]

    return sorted(range(len(names)), key=key)
