"""Explores without the command and prints what it counted: `python -m tests.simulation.explored.directly SCOPE`.

A second line lists the names in the fingerprint's tables that no object of the walk has: they would be misspelt, or
left over from a renamed field.
"""

from __future__ import annotations

import sys
from typing import Any

from scripts.explore.scope import Scope
from scripts.inmemory import small_slices

small_slices.shrink()

from scripts.explore import fingerprint  # noqa: E402 - slices are small from here on
from scripts.explore.exploring import explored  # noqa: E402

met: set[tuple[type, str]] = set()


class Noting(fingerprint._Walk):
    """Notes the fields of every object that it meets."""

    def _fields(self, value: Any) -> list[object]:  # noqa: ANN401
        met.update((type(value), name) for name in vars(value))
        return super()._fields(value)


if __name__ == "__main__":
    vars(fingerprint)["_Walk"] = Noting
    result = explored(Scope.read(sys.argv[1]))
    names = {name for _, name in met}
    by_name = fingerprint.IGNORED | fingerprint.TIMES | fingerprint.DUE
    by_type = {
        *fingerprint._TIMES_THAT_MATTER,
        *fingerprint._REACH_S,
        *((kind, name) for kind, shown in fingerprint._SHOWN.items() for name in shown),
    }
    print(f"{result.states:,} states, {result.transitions:,} transitions")
    print(f"unknown names: {sorted([*(by_name - names), *(name for _, name in by_type - met)])}")
