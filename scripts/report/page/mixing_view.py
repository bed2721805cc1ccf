"""What the report shows of W: a heat map, the figures, and in a sentence for every client who helped it and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from protocol.host.web.heat import SHADES, heat_map
from protocol.host.web.svg import Svg
from scripts.report.page.addresses import anchors
from scripts.report.page.participant_view import is_personal_mixing
from scripts.report.page.sources import clause, strongest
from scripts.report.page.study import Algorithm, Study
from scripts.report.similarity import by_similarity
from scripts.run.records import MixingRecord, Run

_MOST_IN_TABLE = 60
"""A table of more clients is too large to read; the csv of the run folder has it."""


@dataclass(frozen=True, kw_only=True)
class MixingView:
    """One algorithm's W. rows: (client, weights) in the order of the map; helped: (client, anchor, clause)."""

    name: str
    chart: Svg
    source: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    helped: tuple[tuple[str, str, str], ...]
    most: float
    shades: int
    from_round: int
    hover: dict[str, object]

    @property
    def has_table(self) -> bool:
        return len(self.rows) <= _MOST_IN_TABLE


def mixing_views(study: Study) -> Iterator[MixingView]:
    """Of every algorithm whose W tells clients apart; the one that stands for the federation comes first."""
    shown = sorted(study.shown, key=lambda pair: pair[0] is not study.personal)
    told = [(algorithm, run, run.mixing) for algorithm, run in shown if run.mixing and is_personal_mixing(run)]
    for number, (algorithm, run, mixing) in enumerate(told):
        yield _view(algorithm, run, mixing, source=f"mixing-data-{number}")


def _view(algorithm: Algorithm, run: Run, mixing: MixingRecord, *, source: str) -> MixingView:
    order = by_similarity(mixing.weights)
    names = tuple(run.clients[index] for index in order)
    others = mixing.weights - np.diag(mixing.weights.diagonal())
    places = anchors(run.clients)
    helped = [
        (run.clients[index], places[index], clause(helper))
        for index in order
        for helper in strongest(mixing, run.clients, index, 1)
    ]
    rounded = [[round(float(mixing.weights[i, j]), 4) for j in order] for i in order]
    return MixingView(
        name=algorithm.name,
        chart=heat_map(mixing.weights, run.clients, order, described=f"W of {algorithm.name}", source=source),
        source=source,
        names=names,
        rows=tuple(zip(names, (tuple(row) for row in rounded), strict=True)),
        helped=tuple(helped),
        most=float(others.max(initial=0.0)),
        shades=SHADES,
        from_round=mixing.from_round,
        hover={"names": names, "weights": rounded},
    )
