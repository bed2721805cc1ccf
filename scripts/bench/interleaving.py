"""Measures several things in turn, pass after pass, so that a slow minute of the machine affects all of them equally.

Does not know what is measured: a contender is a function that does one pass and returns its figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scripts.bench.figures import Measurements

Contender = Callable[[], float]
"""One pass; returns its own figure, which need not be the time the call took."""


def interleave(
    contenders: Mapping[str, Contender], *, passes: int, unit: str, warm_up: int = 0
) -> dict[str, Measurements]:
    """Run every contender once per pass. Every other pass is reversed, and the first one rotates, so that none is
    always first or always after the same one. Warm-up passes are not kept."""
    names = list(contenders)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warm_up + passes):
        first = number // 2 % len(names)
        order = names[first:] + names[:first]
        for name in order if number % 2 == 0 else reversed(order):
            figure = contenders[name]()
            if number >= warm_up:
                values[name].append(figure)
    return {name: Measurements(name=name, unit=unit, values=tuple(found)) for name, found in values.items()}
