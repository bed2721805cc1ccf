"""Computes the leaderboard of one data set and of all sets under one recipe. Numbers only; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from scripts.report.page.headline import AlgorithmRow, algorithm_row, traffic
from scripts.report.page.overview_view import compared_over, mean_curve, study_facts
from scripts.report.page.study import Algorithm, Study
from scripts.run.ranking import Ranking, rank
from scripts.run.results import mean_or_none

NEAR_THE_BEST = 0.95
"""If no target accuracy is given, rounds and bytes are counted until this share of the best algorithm's accuracy."""

FIRST = "first"


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """One algorithm on one data set. compared: the value it is ranked by; worst, tenth_percentile: the same for its
    least accurate client and at their 10th percentile; rounds_to, bytes_to: until the board's target, None if it was
    not reached or bytes are not known."""

    place: int
    head: AlgorithmRow
    compared: float
    worst: float
    tenth_percentile: float
    verdict: str
    rounds_to: int | None
    bytes_to: float | None

    @property
    def is_first(self) -> bool:
        """Whether no algorithm is significantly better."""
        return self.verdict in (FIRST, "not told apart")


@dataclass(frozen=True, kw_only=True)
class BoardStanding:
    """One data set. rows: the best first; target: the accuracy up to which rounds and bytes are counted; missing: runs
    that are not finished yet; left_out: finished ones of seeds that not every algorithm has."""

    title: str
    study: Study
    facts: tuple[str, ...]
    rows: tuple[BoardRow, ...]
    target: float
    missing: int
    left_out: int

    @property
    def compared_over(self) -> str:
        """The rounds whose mean is compared."""
        return compared_over(self.study)


def stand(title: str, study: Study, *, target: float = 0.0, missing: int = 0, left_out: int = 0) -> BoardStanding:
    """Order the algorithms of a comparison."""
    compared = {
        one.name: fmean(float(np.nanmean(run.compared)) for run in study.summaries[one.name])
        for one in study.algorithms
    }
    order = sorted(study.algorithms, key=lambda one: -compared[one.name])
    target = target or NEAR_THE_BEST * compared[order[0].name]
    rows = tuple(_row(study, one, place, compared[one.name], target) for place, one in enumerate(order, start=1))
    return BoardStanding(
        title=title,
        study=study,
        facts=tuple(study_facts(study)),
        rows=rows,
        target=target,
        missing=missing,
        left_out=left_out,
    )


def _row(study: Study, algorithm: Algorithm, place: int, compared: float, target: float) -> BoardRow:
    head, summaries = algorithm_row(study, algorithm), study.summaries[algorithm.name]
    points = mean_curve(study, algorithm).points
    reached = next((number for number, value in points if value >= target), None)
    found = [] if reached is None else [traffic(run, reached - 1) for run in algorithm.runs]
    return BoardRow(
        place=place,
        head=head,
        compared=compared,
        worst=fmean(float(np.nanmin(run.compared)) for run in summaries),
        tenth_percentile=fmean(float(np.nanpercentile(run.compared, 10)) for run in summaries),
        verdict=FIRST if head.position.to_best is None else head.position.to_best.verdict,
        rounds_to=reached,
        bytes_to=mean_or_none(found),
    )


@dataclass(frozen=True, kw_only=True)
class RecipeStanding:
    """All data sets under one recipe. firsts: by algorithm, on how many sets no other is significantly better."""

    title: str
    boards: tuple[BoardStanding, ...]
    ranking: Ranking
    firsts: dict[str, int]
    means: dict[str, float]
    colours: dict[str, int]


def stand_all(title: str, boards: Sequence[BoardStanding]) -> RecipeStanding:
    """Combine the data sets of one recipe."""
    ranking = rank([one.study.summaries for one in boards])
    rows = {board.title: {row.head.name: row for row in board.rows} for board in boards}
    names = [one.name for one in ranking.algorithms]
    return RecipeStanding(
        title=title,
        boards=tuple(boards),
        ranking=ranking,
        firsts={name: sum(by_name[name].is_first for by_name in rows.values()) for name in names},
        means={name: fmean(by_name[name].compared for by_name in rows.values()) for name in names},
        colours={row.head.name: row.head.colour for board in boards for row in board.rows},
    )
