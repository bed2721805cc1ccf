"""Formats numbers for people: shares, sizes, durations; the same on all pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_UNITS = ("B", "kB", "MB", "GB", "TB")
NARROW = "\u202f"
"""A narrow no-break space, between a number and its unit."""


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}{NARROW}%"


def size(count: float) -> str:
    """Format bytes in powers of 1000."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    digits = 0 if unit == 0 or count >= 99.95 else 1
    return f"{count:.{digits}f}{NARROW}{_UNITS[unit]}"


def duration(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.1f}{NARROW}h"
    if seconds >= 90:
        return f"{seconds / 60:.1f}{NARROW}min"
    return f"{seconds:.2f}{NARROW}s" if seconds < 10 else f"{seconds:.0f}{NARROW}s"


def ago(seconds: float | None) -> str:
    """Format how long ago something was; less than 5 seconds is "now"."""
    if seconds is None:
        return "–"
    return "now" if seconds < 5 else f"{duration(5 * (seconds // 5))} ago"


def clock(seconds: float) -> str:
    """Format a time on the run clock: 1:02:03."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


FILTERS: Mapping[str, Callable[..., str]] = {
    "percent": percent,
    "size": size,
    "duration": duration,
    "ago": ago,
    "clock": clock,
}
