"""Checks what must hold in every state and at every end. Reads a world; changes only how far its journal was read."""

from __future__ import annotations

from coordinator.decisions import facts
from coordinator.decisions.stages import Stage
from coordinator.record.journal import fact_of
from scripts.explore.world import World

HARMLESS = frozenset({"stale", "outdated"})
"""Counters that may rise although everybody is honest: a network repeats and delays messages."""

_FORBIDDEN = (facts.Refused, facts.Quarantined, facts.Left, facts.AllowListSet, facts.Paused)


class Broken(AssertionError):
    """A law does not hold."""


def check_state(world: World) -> None:
    """Raise Broken if a law is violated after a step."""
    if world.centre.mark is None:  # it has moved
        _check_coordinator(world)
    for name, home in world.homes.items():
        if home.end is not None and home.end.code != 0:
            raise Broken(f"{name} ended with code {home.end.code}: {home.end.reason}")


def _check_coordinator(world: World) -> None:
    world.centre.machine.check_invariants()
    odd = {name: count for name, count in world.centre.exchange.counts.items() if name not in HARMLESS}
    if odd:
        raise Broken(f"the coordinator calls honest members faulty, or its own words: {odd}")
    _check_facts(world)


def _check_facts(world: World) -> None:
    """Check new facts: no honest member is refused, leaves or is excluded, and no report counts twice."""
    new = list(world.centre.disk.journal.entries(world.checked))
    if not new:
        return
    counted = [(entry.kind, entry.body) for entry in world.centre.disk.journal.entries()]
    for entry in new:
        world.checked = entry.serial
        fact = fact_of(entry)
        if isinstance(fact, _FORBIDDEN):
            raise Broken(f"an honest member suffers: {fact}")
        if isinstance(fact, facts.Lost):
            world.was_thought_dead = True
        if isinstance(fact, facts.Finished) and fact.reason != "rounds":
            raise Broken(f"the run ends because of {fact.reason}: {fact.sentence}")
        if isinstance(fact, facts.UpdateAccepted | facts.StatsAccepted | facts.GoodbyeAccepted):
            same = [body for kind, body in counted if kind == entry.kind and _names(body, fact.member, fact.round_no)]
            if len(same) > 1:
                raise Broken(f"counted twice: {entry.kind} of {fact.member} for round {fact.round_no}")


def _names(body: bytes, member: str, round_no: int) -> bool:
    return f'"member":"{member}"'.encode() in body and f'"round_no":{round_no},'.encode() in body


def check_end(world: World, expected: dict[str, bytes | None]) -> None:
    """Raise Broken unless all parties ended well and, in barrier mode, with the models of the undisturbed run."""
    unfinished = [name for name, home in world.homes.items() if home.end is None]
    if unfinished or not world.centre.is_down:
        raise Broken(f"nothing can happen any more, and these have not ended: {unfinished or ['C']}")
    state = world.centre.machine.state
    if state.stage is not Stage.FINISHED:
        raise Broken(f"the run ended as {state.stage}")
    if world.was_thought_dead or world.setup.continuous:
        return
    for name, home in world.homes.items():
        if home.disk.final != expected.get(name):
            raise Broken(f"{name} ended with another model than in the undisturbed run")


def undisturbed(world: World) -> dict[str, bytes | None]:
    """Return the final models of a run without faults; the world is used up. Empty if even that run fails: the
    exploration will report why."""
    try:
        while world.step():
            pass
    except Exception:  # noqa: BLE001 - found again, and reported with its path
        return {}
    return {name: home.disk.final for name, home in world.homes.items()}
