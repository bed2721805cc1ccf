"""Builds the first page: the meaning in words, the table, curves, clients, W, classes, costs, settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from protocol.host.web.curves import CurveLine, curve_rows, curves_by_width, thinned
from protocol.host.web.svg import Svg
from scripts.report.page import costs
from scripts.report.page.dots import Dot, DotRow, class_dots, client_dots
from scripts.report.page.headline import algorithm_row, in_words
from scripts.report.page.mixing_view import mixing_views
from scripts.report.page.participant_view import role
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.wording import counted
from scripts.report.tables import QUALITY_NAMES
from scripts.run.records import Run
from scripts.run.results import SETTLED


@dataclass(frozen=True, kw_only=True)
class ClientRow:
    """One client's accuracy under every shown algorithm, None if not measured; best: the largest of these."""

    name: str
    anchor: str
    values: tuple[float | None, ...]
    best: float
    change: float | None


def overview(study: Study) -> dict[str, object]:
    """Return what the template of the first page shows beside the study itself, by name."""
    heads = tuple(algorithm_row(study, algorithm) for algorithm in study.algorithms)
    series = [mean_curve(study, algorithm) for algorithm in study.algorithms]
    order, client_rows = _by_change(_client_rows(study))
    first = study.shown[0][1]
    names = [study.clients[index] for index in study.ordered]
    counts = None if first.class_counts is None else [first.class_counts[index] for index in study.ordered]
    return {
        "title": _title(study),
        "facts": tuple(study_facts(study)),
        "words": tuple(in_words(study)),
        "heads": heads,
        "best": max(head.figures.last for head in heads)
        if study.common_seeds == study.seeds and len(heads) > 1
        else None,
        "qualities": {
            name: title
            for name, title in QUALITY_NAMES.items()
            if any(name in head.figures.qualities for head in heads)
        },
        "curves": curves_by_width(series, described="Mean test accuracy per round, one line per algorithm"),
        "closeup": _closeup(series),
        "hover": _hover(series),
        "curve_rows": curve_rows(series, about=20),
        "clients_chart": client_dots(
            _dot_rows(study, [study.listed[at] for at in order]),
            described="Accuracy of every client under every algorithm",
        ),
        "client_rows": client_rows,
        "mixings": tuple(mixing_views(study)),
        "classes_chart": None
        if counts is None
        else class_dots(counts, names, first.classes, described="Samples per class and client"),
        "class_rows": () if counts is None else tuple(zip(names, counts, strict=True)),
        "time": costs.time_chart(study),
        "bytes": costs.bytes_chart(study),
        "bytes_note": costs.computed_note(study),
        "compared_over": compared_over(study),
        "settings": tuple(_common_settings(study.runs)),
        "versions": tuple(sorted({(k, v) for run in study.runs for k, v in run.versions.items()})),
    }


def _title(study: Study) -> str:
    names = {run.settings.get("cohort.data") or run.settings.get("run", "") for run in study.runs}
    name = names.pop() if len(names) == 1 else "Federation"
    return f"{name}: {counted(len(study.clients), 'client')}, {counted(len(study.algorithms), 'algorithm')}"


def compared_over(study: Study) -> str:
    """Name the rounds whose mean is compared, as `Summary.compared` chooses them."""
    return "last ten rounds" if study.round_no + 1 >= SETTLED else "last round"


def study_facts(study: Study) -> Iterator[str]:
    """Say in a few words how the data were divided and what ran."""
    settings = study.runs[0].settings
    partition = settings.get("cohort.partition")
    if partition == "site":
        yield "divided by site"
    elif partition in ("dirichlet", "dirichlet-pairs"):
        yield f"{partition}, α {settings.get('cohort.alpha', '?')}"
    elif partition:
        yield partition
    if "cohort.protocol" in settings:
        yield f"protocol {settings['cohort.protocol']}"
    if "model" in settings:
        yield settings["model"]
    yield counted(study.round_no + 1, "round")
    yield f"seed {study.seeds[0]}" if len(study.seeds) == 1 else f"seeds {', '.join(map(str, study.seeds))}"


def mean_curve(study: Study, algorithm: Algorithm) -> CurveLine:
    """Return the mean over the seeds of one algorithm, with its range."""
    by_seed = [{number + 1: mean for number, mean in run.curve} for run in study.summaries[algorithm.name]]
    common = sorted(set.intersection(*(set(values) for values in by_seed)))
    points = [(number, fmean(values[number] for values in by_seed)) for number in common]
    kept = thinned(points)
    band = tuple((n, min(v[n] for v in by_seed), max(v[n] for v in by_seed)) for n, _ in kept)
    return CurveLine(
        name=algorithm.name,
        colour=algorithm.colour,
        points=kept,
        band=band if len(by_seed) > 1 else (),
        strong=algorithm is study.personal,
    )


def _closeup(series: Sequence[CurveLine]) -> Svg | None:
    """Draw the curves magnified where they end, if algorithms differ little there; None if the whole chart suffices."""
    ends = [one.points[-1][1] for one in series]
    lowest = min(value for one in series for _, value in one.points)
    span = max(ends) - min(ends)
    low = max(0.0, min(ends) - max(0.3 * span, 0.005))
    if len(ends) < 2 or not span or low - lowest < 0.5 * (max(ends) - lowest):
        return None
    return curves_by_width(series, described="The same, zoomed in on the last rounds", low=low)


def _hover(series: Sequence[CurveLine]) -> dict[str, object]:
    """Return what the page's script needs to show values on hover."""
    rounds = sorted({number for one in series for number, _ in one.points})
    lines = [
        {"name": one.name, "colour": one.colour, "values": [_tenth(dict(one.points).get(number)) for number in rounds]}
        for one in series
    ]
    return {"rounds": rounds, "lines": lines}


def _tenth(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _client_rows(study: Study) -> list[ClientRow]:
    rows = []
    for index in study.listed:
        name, anchor = study.clients[index], study.anchors[index]
        scores = {a.name: run.at(study.round_no).scores[index] for a, run in study.shown}
        values = tuple(None if score is None else score.accuracy for score in scores.values())
        alone = scores.get(study.alone.name) if study.alone else None
        personal = scores.get(study.personal.name) if study.personal else None
        change = personal.accuracy - alone.accuracy if personal is not None and alone is not None else None
        known = [value for value in values if value is not None]
        rows.append(ClientRow(name=name, anchor=anchor, values=values, best=max(known, default=0.0), change=change))
    return rows


def _by_change(rows: Sequence[ClientRow]) -> tuple[list[int], tuple[ClientRow, ...]]:
    """Sort clients by gain, largest first; without a comparison, by accuracy."""
    order = sorted(
        range(len(rows)), key=lambda at: -(rows[at].best if rows[at].change is None else rows[at].change or 0.0)
    )
    return order, tuple(rows[at] for at in order)


def _dot_rows(study: Study, order: Sequence[int]) -> list[DotRow]:
    return [
        DotRow(
            name=study.clients[index],
            anchor=study.anchors[index],
            dots=tuple(
                Dot(name=a.name, colour=a.colour, value=score.accuracy, role=role(study, a))
                for a, score in study.scores(index)
            ),
        )
        for index in order
    ]


def _common_settings(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        values = list(dict.fromkeys(run.settings[key] for run in runs if key in run.settings))
        if key not in ("algorithm", "seed") and not key.startswith("options."):
            yield key, ", ".join(value for value in values if value != "") or "–"
