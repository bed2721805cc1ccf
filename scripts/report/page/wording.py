"""Formats numbers and names for the report: per cent, points, bytes, durations, ordinals, algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.host.web.wording import NARROW as NARROW
from protocol.host.web.wording import duration as duration
from protocol.host.web.wording import percent as percent
from protocol.host.web.wording import size as size
from scripts.report.algorithms import option_in_short, spelled

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def algorithm_name(algorithm: str, options: Mapping[str, str]) -> str:
    """Return the name used in the literature, with the options that were set, abbreviated: charts have little room."""
    short = ", ".join(option_in_short(key, value) for key, value in options.items())
    return f"{spelled(algorithm)} {short}".rstrip()


def points(difference: float, *, sign: bool = False) -> str:
    """Write a difference of shares in points, rounded to a tenth; with its sign only on request."""
    value = 100 * difference
    amount = f"{value:+.1f}" if sign and round(value, 1) else f"{abs(value):.1f}"
    return f"{amount.replace('-', '−')} point{'' if amount.lstrip('+-') == '1.0' else 's'}"


def share(value: float | None) -> str:
    """Write a share for tables: per cent without the sign, two decimals; a dash if unknown."""
    return "–" if value is None else f"{100 * value:.2f}"


def ordinal(index: int) -> str:
    """Return the ordinal for a position counted from 0."""
    if index < len(_ORDINALS):
        return _ORDINALS[index]
    number = index + 1
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listed(words: Sequence[str]) -> str:
    """Join words: a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def counted(count: int, noun: str, several: str = "") -> str:
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"
