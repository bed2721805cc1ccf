"""Compute where windows begin in a recording, from lengths only."""

from __future__ import annotations


def window_starts(length: int, *, window: int, step: int) -> range:
    """Return the starts of all whole windows in `length` steps; the rest at the end is dropped, not padded."""
    return range(0, length - window + 1, step)
