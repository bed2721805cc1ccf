"""Decides how algorithms are shown in figures, tables and pages: order, spelling, colour and dash.

The order is that of `STRATEGIES`; an algorithm added there gets the next style automatically and is written as its
`label` says. A style is a function of a number (the place), so an algorithm has the same style in every file. Each has
two shades, one for light and one for dark backgrounds, both with a contrast of at least 4.5 (WCAG AA for text).
"""

from __future__ import annotations

import zlib
from functools import cache

from fedap_core.strategies import STRATEGIES
from protocol.host.web.colours import DARK, GOLDEN_ANGLE, LIGHT, Style, shade_with_contrast

_SYMBOLS = {"self_weight": "λ", "mu": "μ"}
_SWITCHES = frozenset({"true", "yes", "1"})
_SWITCHED = {"full_covariance": "full covariance", "equal": "equal weights"}
"""Options that are on or off, and how they are written when they are on."""

_HUES = {
    "base": 320.0,
    "fedavg": 250.0,
    "fedprox": 215.0,
    "fedper": 155.0,
    "fedbn": 255.0,
    "fedap": 27.0,
    "d-fedap": 52.0,
    "f-fedap": 85.0,
    "fedap-sbn": 0.0,
    "fedap-unweighted": 120.0,
}
"""Degrees on the OKLCH wheel; `fedavg` is grey. All other algorithms take steps of the golden angle."""

_FIRST_FREE_HUE = 290.0
_DASHES = ("", "7 4", "2 4", "10 3 2 3")
_SOLID = frozenset({"base", "fedavg", "fedbn", "fedap"})
_CHROMA = 0.17
_CONTRASTS = (5.0, 7.0)
"""Alternated so that neighbouring hues also differ in lightness; both are above 4.5."""
_OWN_PLACES = 64
"""Users' algorithms, which are not in `STRATEGIES`, are spread over this many places after it."""


def spelled(label: str) -> str:
    """Write `fedap:self_weight=0.3` as `FedAP:self_weight=0.3`; users' algorithms stay as they are."""
    name, colon, options = label.partition(":")
    known = STRATEGIES.get(name)
    if known is not None:  # an inherited label is the parent's name
        name = vars(known).get("label") or known.__name__
    return name + colon + options


def option_in_short(key: str, value: str) -> str:
    """Write `self_weight`, `0.7` as `λ=0.7`, a switch that is on in words, everything else as key=value."""
    if key in _SWITCHED and value.lower() in _SWITCHES:
        return _SWITCHED[key]
    return f"{_SYMBOLS.get(key, key)}={value}"


def place(label: str) -> int:
    """Return an algorithm's position in every list, which also selects its style; options do not change it."""
    names = list(STRATEGIES)
    name = label.partition(":")[0]
    return names.index(name) if name in names else len(names) + zlib.crc32(label.encode()) % _OWN_PLACES


def colour(label: str) -> str:
    """Return an algorithm's colour on white."""
    return style(place(label)).light


@cache
def style(at: int) -> Style:
    """Return the style of a place: first those of `STRATEGIES`, then any number of others."""
    name = list(STRATEGIES)[at] if at < len(STRATEGIES) else ""
    hue = _HUES.get(name, (_FIRST_FREE_HUE + at * GOLDEN_ANGLE) % 360.0)
    chroma = 0.02 if name == "fedavg" else _CHROMA
    contrast = _CONTRASTS[0 if name in _HUES else at % len(_CONTRASTS)]
    return Style(
        light=shade_with_contrast(hue, chroma, background=LIGHT, contrast=contrast),
        dark=shade_with_contrast(hue, chroma, background=DARK, contrast=contrast + 1.0),
        dash="" if name in _SOLID else _DASHES[at % len(_DASHES)],
    )
