"""Shows W in the report: a heat map, the numbers, and for every client a sentence on who helped it and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import FloatArray
from protocol.host.web.heat import SHADES, heat_map
from protocol.host.web.svg import Svg
from scripts.report.page.sources import strongest
from scripts.report.page.study import Algorithm, Study
from scripts.report.similarity import by_similarity, cluster_names
from scripts.run.mixing_record import AnyMixing, MixingRecord
from scripts.run.records import Run

_MOST_IN_TABLE = 60
"""With more clients a table is too large to read; the csv of the run folder has it."""


@dataclass(frozen=True, kw_only=True)
class MixingView:
    """One algorithm's W. rows: (client, weights) in the heat map's order; helped: (client, anchor, clause).

    of_clusters: whether W is drawn between clusters of clients, which have no pages, so their anchors are empty.
    """

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
    of_clusters: bool = False

    @property
    def has_table(self) -> bool:
        return len(self.rows) <= _MOST_IN_TABLE


def mixing_views(study: Study) -> Iterator[MixingView]:
    """Yield a view of each algorithm whose W treats clients differently, the federation's representative first."""
    shown = sorted(study.shown, key=lambda pair: pair[0] is not study.personal)
    personal = [(algorithm, run, run.mixing) for algorithm, run in shown if run.mixing and run.mixing.is_personal]
    for number, (algorithm, run, mixing) in enumerate(personal):
        if mixing.clusters or isinstance(mixing, MixingRecord):
            yield _view(study, algorithm, run, mixing, source=f"mixing-data-{number}")


def _view(study: Study, algorithm: Algorithm, run: Run, mixing: AnyMixing, *, source: str) -> MixingView:
    described = f"W of {algorithm.name}"
    if mixing.clusters:
        names, weights = cluster_names(mixing.clusters), mixing.between_clusters()
        others, described = weights, f"{described} between clusters of clients"
    else:
        names, weights = list(run.clients), mixing.weights
        others = weights - np.diag(weights.diagonal())  # only these set the range of the shades
    order = by_similarity(weights)
    ordered = tuple(names[at] for at in order)
    rounded = [[round(float(weights[i, j]), 4) for j in order] for i in order]
    blank_own = not mixing.clusters
    return MixingView(
        name=algorithm.name,
        chart=heat_map(weights, names, order, described=described, source=source, blank_own=blank_own),
        source=source,
        names=ordered,
        rows=tuple(zip(ordered, (tuple(row) for row in rounded), strict=True)),
        helped=tuple(_helped(study, run, mixing, names, order, weights)),
        most=float(others.max(initial=0.0)),
        shades=SHADES,
        from_round=mixing.from_round,
        hover={"names": ordered, "weights": rounded},
        of_clusters=bool(mixing.clusters),
    )


def _helped(
    study: Study, run: Run, mixing: AnyMixing, names: Sequence[str], order: Sequence[int], weights: FloatArray
) -> Iterator[tuple[str, str, str]]:
    """Yield (name, anchor, clause) of every row: the strongest source of a client, or the strongest of a cluster."""
    for at in order:
        if mixing.clusters:
            yield names[at], "", _taken(weights[at], names, run.clients[mixing.clusters.index(at)])
        else:
            yield from ((names[at], study.anchors[at], one.clause) for one in strongest(mixing, run.clients, at, 1))


def _taken(row: FloatArray, names: Sequence[str], member: str) -> str:
    """Say from which clusters a cluster takes most, and name one of its clients."""
    most = [at for at in np.argsort(-row, kind="stable").tolist() if row[at] > 0][:3]
    parts = [f"{row[at]:.2g} from {names[at]}" for at in most]
    return f"({member} and others) takes {', '.join(parts) or 'nothing from others'}."
