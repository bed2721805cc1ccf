"""Builds the page of one participant: its accuracy under each algorithm, advice, who helped it, its mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.host.web.curves import CurveLine, Frame, curve_rows, curves_by_width, thinned
from protocol.host.web.svg import Svg
from scripts.report.page.advice import Advice, advise, served_best
from scripts.report.page.bars import Bar, Piece, bars
from scripts.report.page.dots import Dot, intervals
from scripts.report.page.headline import client_curve, standings
from scripts.report.page.sources import Helper, strongest
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.wording import counted, percent
from scripts.run.records import ClientScore, Counts

HELPERS = 4
MOST_CLASSES = 26
"""With more classes a matrix is unreadable; then only the most frequent mistakes are listed."""
_MISTAKES = 5
_FRAME = Frame(width=560, height=250, right=92)


View = dict[str, object]
"""What the template of a participant's page shows, by name."""


def participant_views(study: Study) -> list[View]:
    """Return one page per listed client of the shown seed."""
    places = [study.anchors[index] for index in study.ordered]
    return [_view(study, index, places, at) for at, index in enumerate(study.ordered)]


def _view(study: Study, index: int, places: Sequence[str], at: int) -> View:
    name = study.clients[index]
    scored = study.scores(index)
    dots = [_dot(study, algorithm, score) for algorithm, score in scored]
    helpers, own = _helpers(study, index)
    advice = _advice(study, index)
    return {
        "name": name,
        "anchor": places[at],
        "previous": places[at - 1],
        "following": places[(at + 1) % len(places)],
        "profile": _profile(study, index, [score for _, score in scored]),
        "advice": advice,
        "served_best": served_best(tuple(standings(study, index).values())),
        "scores": scored,
        "intervals": intervals(dots, described=f"Accuracy of {name} under each algorithm with 95 % intervals")
        if dots
        else None,
        "curves": _curves(study, index, advice.model),
        "classes": _class_bars(study, index),
        "class_counts": _class_counts(study, index),
        "helpers": helpers,
        "own_weight": own,
        "confusions": tuple(_confusions(study, index)),
    }


def _profile(study: Study, index: int, scores: Sequence[ClientScore]) -> str:
    counts = _class_counts(study, index)
    known = []
    if counts:
        present, all_classes = sum(count > 0 for _, count in counts), counted(len(counts), "class", "classes")
        known.append(f"{sum(count for _, count in counts)} samples of {present} of {all_classes}")
    if scores:
        known.append(f"{scores[0].samples} of them for testing" if counts else f"{scores[0].samples} test samples")
    return ", ".join(known)


def _advice(study: Study, index: int) -> Advice:
    here = standings(study, index)
    alone, personal, average = (
        None if one is None else here.get(one.name) for one in (study.alone, study.personal, study.plain("fedavg"))
    )
    federated = [one for algorithm, _ in study.shown if algorithm.kind != "base" and (one := here.get(algorithm.name))]
    return advise(
        alone=alone, personal=personal, others=tuple(federated), average=average, classes=study.shown[0][1].classes
    )


def _dot(study: Study, algorithm: Algorithm, score: ClientScore) -> Dot:
    return Dot(
        name=algorithm.name,
        colour=algorithm.colour,
        value=score.accuracy,
        interval=score.interval,
        role=role(study, algorithm),
    )


def role(study: Study, algorithm: Algorithm) -> str:
    """Return the role that decides how an algorithm's dot is drawn."""
    return "personal" if algorithm is study.personal else "alone" if algorithm is study.alone else "other"


def _curves(study: Study, index: int, best: str) -> View | None:
    """Draw alone, one model for all, personalised, and the best here; more lines could not be distinguished."""
    wanted = [study.alone, study.plain("fedavg"), study.personal]
    series = [
        CurveLine(
            name=algorithm.name,
            colour=algorithm.colour,
            points=thinned(client_curve(run, index, study.round_no)),
            strong=algorithm is study.personal,
        )
        for algorithm, run in study.shown
        if algorithm.name == best or any(algorithm is one for one in wanted)
    ]
    if not any(len(one.points) > 1 for one in series):
        return None
    chart = curves_by_width(series, described=f"Accuracy of {study.clients[index]} per round", wide=_FRAME)
    return {"chart": chart, "names": tuple(one.name for one in series), "rows": curve_rows(series, about=8)}


def _class_counts(study: Study, index: int) -> tuple[tuple[str, int], ...]:
    run = study.shown[0][1]
    return () if run.class_counts is None else tuple(zip(run.classes, run.class_counts[index], strict=True))


def _class_bars(study: Study, index: int) -> Svg | None:
    counts = _class_counts(study, index)
    if not counts or len(counts) > MOST_CLASSES:
        return None
    rows = [
        Bar(name=name, value=f"{count}", pieces=(Piece(amount=count, class_="amount", title=f"{name}: {count}"),))
        for name, count in counts
    ]
    return bars(rows, described=f"Samples per class of {study.clients[index]}", step=21)


def _helpers(study: Study, index: int) -> tuple[tuple[Helper, ...], str]:
    run = study.personal.run_of(study.seed) if study.personal is not None else None
    if run is None or run.mixing is None or not run.mixing.is_personal:
        return (), ""
    own = float(run.mixing.row(index)[index])
    return tuple(strongest(run.mixing, run.clients, index, HELPERS)), f"{own:.2g}"


def _confusions(study: Study, index: int) -> list[Confusion]:
    """Return the confusion matrices of the personalised and of the local model."""
    found = []
    for wanted in (study.personal, study.alone):
        run = wanted.run_of(study.seed) if wanted is not None else None
        score = run.at(study.round_no).scores[index] if run is not None else None
        if wanted is not None and run is not None and score is not None and score.confusion is not None:
            numbers = tuple(f"class {number}" for number in range(len(score.confusion)))
            names = run.classes if len(run.classes) == len(numbers) else numbers
            found.append(confusion(wanted.name, names, score.confusion))
    return found


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """rows: (true class, [(count, shade 0..9, is correct)], recall); mistakes: the most frequent as sentences."""

    name: str
    classes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[int, int, bool], ...], str], ...]
    mistakes: tuple[str, ...]


def confusion(name: str, classes: Sequence[str], counts: Counts) -> Confusion:
    """Build the view of a confusion matrix, without classes that neither occur nor are predicted here."""
    used = [at for at in range(len(classes)) if any(counts[at]) or any(row[at] for row in counts)]
    rows = []
    for truth in used:
        whole = sum(counts[truth])
        cells = tuple(
            (counts[truth][guess], min(9, int(10 * counts[truth][guess] / whole)) if whole else 0, truth == guess)
            for guess in used
        )
        rows.append((classes[truth], cells, percent(counts[truth][truth] / whole, 0) if whole else "–"))
    wrong = [(counts[t][g], t, g) for t in used for g in used if t != g and counts[t][g]]
    wrong.sort(key=lambda one: (-one[0], one[1], one[2]))
    mistakes = tuple(f"{classes[t]} taken for {classes[g]}: {count}" for count, t, g in wrong[:_MISTAKES])
    shown = len(used) <= MOST_CLASSES
    return Confusion(
        name=name,
        classes=tuple(classes[at] for at in used) if shown else (),
        rows=tuple(rows) if shown else (),
        mistakes=mistakes,
    )
