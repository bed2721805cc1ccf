"""Where windows begin in a recording. It knows lengths only, no signals and no labels."""

from __future__ import annotations


def window_starts(length: int, *, window: int, step: int) -> range:
    """Starts of all whole windows in `length` steps; what is left at the end is not padded but dropped."""
    return range(0, length - window + 1, step)
