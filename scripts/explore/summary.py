"""Describes an exploration's result in words: what was visited, whether that is complete, and the path to a fault."""

from __future__ import annotations

from scripts.explore.scope import Scope
from scripts.explore.search import Counterexample, Result


def summary_of(scope: Scope, result: Result) -> str:
    """Return some lines for a terminal."""
    seen = (
        f"{result.states:,} states, {result.transitions:,} transitions, "
        f"{'longest path' if scope.wander else 'depth'} {result.depth}, "
        f"{result.ends:,} {'walks' if scope.wander else 'ends'}, {result.seconds:.0f} s"
    )
    lines = [scope.sentence, f"  {seen}"]
    if result.counterexample is not None:
        lines += ["  FAULT FOUND", *_steps(result.counterexample)]
    elif result.complete:
        lines.append("  complete: every law holds in every state, and every path ends well")
    elif scope.wander:
        lines.append("  every law held in every state, and every walk ended well")
    else:
        lines.append("  not complete, time or memory was used up: every law held, and what was left open ends well")
    return "\n".join(lines)


def _steps(found: Counterexample) -> list[str]:
    steps = [f"  {number:4}  {text}" for number, text in enumerate(found.steps, start=1)]
    return [*steps, f"        then: {found.fault}"]
