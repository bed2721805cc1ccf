"""Decides what the page of a run shows: the headline, the order of members, curves and W as drawings.

Pure: takes an overview, returns the values of the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coordinator.watching.overview import MemberOverview, RunOverview
from protocol.host.web.curves import NARROW, CurveLine, curves, thinned
from protocol.host.web.heat import heat_map
from protocol.host.web.live import Context
from protocol.host.web.svg import Svg

PARTS = ("stage", "accuracy", "members", "mixing", "events")

_OWN_LINES = 12
"""With more members the chart shows their mean and range instead of a line each."""
_SHOWN_MEMBERS = 200
_LARGEST_HEAT = 60
_WIDEST_HEAT, _NARROWEST_HEAT, _CELL = 460.0, 220.0, 24.0
"""Sides in pixels: for few members a small drawing, with names that are legible on a phone."""
_MEAN_COLOUR = 0


def context_of(run: RunOverview) -> Context:
    """Return the values that the template needs."""
    lines = _lines(run)
    described = f"Test accuracy of {run.run} by round"
    members = sorted(run.members, key=_attention_order)
    return {
        "run": run,
        "waits": _waits(run),
        "headline": headline(run),
        "mood": _mood(run),
        "done_percent": f"{100 * run.round / max(run.rounds, 1):.1f}",
        "curves_wide": curves(lines, described=described) if lines else None,
        "curves_narrow": curves(lines, described=described, frame=NARROW) if lines else None,
        "curves_hint": _curves_hint(run),
        "shown_members": members[:_SHOWN_MEMBERS] if len(members) > _SHOWN_MEMBERS else run.members,
        "hidden_members": max(len(members) - _SHOWN_MEMBERS, 0),
        "heat": _heat(run),
        "no_heat": _no_heat(run),
        "neighbours": _neighbours(run),
    }


def headline(run: RunOverview) -> str:
    """Return the state of the run in one sentence."""
    if run.ended:
        return f"The run has {'been aborted' if run.stage == 'aborted' else 'ended'}."
    if run.running is False:
        return "No coordinator is running: start `serve` again with the same folder to resume the run."
    words = {
        "enrolling": "Waiting for members.",
        "measuring": "Members measure statistics.",
        "training": f"Round {run.round} of {run.rounds}: members train.",
        "aggregating": f"Round {run.round} of {run.rounds}: models are mixed.",
        "finished": "All rounds are done; members fetch their last models.",
        "aborted": "The run is being aborted.",
    }
    return words[run.stage]


def _waits(run: RunOverview) -> str:
    if not run.waits or run.stage in ("finished", "aborted"):
        return run.waits[:1].upper() + run.waits[1:]
    return f"Waiting: {run.waits}"


def _mood(run: RunOverview) -> str:
    if run.stage == "aborted" or run.paused or (run.running is False and not run.ended):
        return "loss"
    return "gain" if run.stage == "finished" else ""


def _attention_order(member: MemberOverview) -> tuple[bool, str]:
    """Sort key: members with something unusual come first."""
    return member.status == "present" and not member.strikes, member.name


def _lines(run: RunOverview) -> list[CurveLine]:
    scored = {name: points for name, points in run.scores.items() if points}
    if not scored:
        return []
    by_round = _by_round(scored)
    many = len(scored) > _OWN_LINES
    mean = CurveLine(
        name="mean" if len(scored) > 1 else next(iter(scored)),
        colour=_MEAN_COLOUR,
        points=thinned([(number, sum(values) / len(values)) for number, values in by_round.items()]),
        band=tuple((number, min(values), max(values)) for number, values in by_round.items()) if many else (),
        strong=True,
    )
    if many or len(scored) == 1:
        return [mean]
    own = [
        CurveLine(name=name, colour=number, points=thinned(scored[name]))
        for number, name in enumerate(sorted(scored), start=1)
    ]
    return [*own, mean]


def _by_round(scored: Mapping[str, Sequence[tuple[int, float]]]) -> dict[int, list[float]]:
    """Return for every round the latest score so far of every member that has one."""
    latest: dict[str, float] = {}
    found: dict[int, list[float]] = {}
    ordered = sorted((number, name, value) for name, points in scored.items() for number, value in points)
    for number, name, value in ordered:
        latest[name] = value
        found[number] = list(latest.values())
    return found


def _curves_hint(run: RunOverview) -> str:
    who = "The mean of all members, and the range between the lowest and the highest" if len(run.scores) > _OWN_LINES \
        else "A line per member, and their mean"  # fmt: skip
    return f"{who}: test accuracy of each round's model on the members' own samples."


def _heat(run: RunOverview) -> Svg | None:
    if not run.weights or len(run.weights_members) > _LARGEST_HEAT:
        return None
    order = range(len(run.weights_members))
    weights = np.asarray(run.weights, dtype=np.float64)
    side = min(_WIDEST_HEAT, max(_NARROWEST_HEAT, _CELL * len(order)))
    return heat_map(weights, run.weights_members, order, described="Who learns from whom", source="", side=side)


def _no_heat(run: RunOverview) -> str:
    if run.weights:
        return f"Weights of {len(run.weights_members)} members: too many to draw; they are in `state.json`."
    return "No weights yet, or the algorithm weights all members equally."


def _neighbours(run: RunOverview) -> list[str]:
    """Return for each member a sentence on whom it learns from most."""
    found = []
    for at, (name, row) in enumerate(zip(run.weights_members, run.weights, strict=True)):
        others = [(weight, run.weights_members[other]) for other, weight in enumerate(row) if other != at]
        weight, nearest = max(others, default=(0.0, ""))
        if weight > 0.0:
            found.append(f"{name}: {row[at]:.0%} its own, most from {nearest} ({weight:.0%})")
        else:
            found.append(f"{name}: learns from nobody else")
    return found
