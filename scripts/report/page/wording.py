"""How numbers and names are written in the report: per cent, points, bytes, durations, ordinals, algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.host.web.wording import NARROW as NARROW
from protocol.host.web.wording import duration as duration
from protocol.host.web.wording import percent as percent
from protocol.host.web.wording import size as size
from scripts.report.algorithms import option_in_short, spelled

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def algorithm_name(algorithm: str, options: Mapping[str, str]) -> str:
    """As the literature writes it, with the options that were set, in short: charts have little room."""
    told = ", ".join(option_in_short(key, value) for key, value in options.items())
    return f"{spelled(algorithm)} {told}".rstrip()


def points(difference: float, *, sign: bool = False) -> str:
    """A difference of shares in points. Always rounded to a tenth; the sign only where it is asked for."""
    value = 100 * difference
    amount = f"{value:+.1f}" if sign and round(value, 1) else f"{abs(value):.1f}"
    return f"{amount.replace('-', '−')} point{'' if amount.lstrip('+-') == '1.0' else 's'}"


def ordinal(index: int) -> str:
    """The word for a position counted from 0."""
    if index < len(_ORDINALS):
        return _ORDINALS[index]
    number = index + 1
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listed(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def counted(count: int, noun: str, several: str = "") -> str:
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"
