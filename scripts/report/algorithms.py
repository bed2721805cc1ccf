"""How algorithms are shown in figures, tables and pages: their order, their spelling, their colour and dash.

The order is that of `STRATEGIES`; an algorithm that is added there gets the next style by itself and is written as its
`label` says. Styles follow from a number (the place), so the same algorithm has the same style in every file. Each has
two shades, one for light and one for dark backgrounds, both with a contrast of at least 4.5 (WCAG AA for text).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from math import cos, radians, sin

from fedap_core.strategies import STRATEGIES

_SYMBOLS = {"self_weight": "λ", "mu": "μ"}
_SWITCHES = frozenset({"true", "yes", "1"})
_SWITCHED = {"full_covariance": "full covariance", "equal": "equal weights"}
"""Options that are on or off, and what is written where they are on."""

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
"""Degrees on the OKLCH wheel; `fedavg` is a grey. Everything else takes the next step of the golden angle."""

_GOLDEN_ANGLE = 137.508
_FIRST_FREE_HUE = 290.0
_DASHES = ("", "7 4", "2 4", "10 3 2 3")
_SOLID = frozenset({"base", "fedavg", "fedbn", "fedap"})
_CHROMA = 0.17
_CONTRASTS = (5.0, 7.0)
"""Neighbouring hues differ in lightness too; both are above 4.5."""
_LIGHT, _DARK = "#f7f7f5", "#1a1e22"
"""The backgrounds that are hardest to stand out from: the page's light ground and its dark cards."""
_OWN_PLACES = 64
"""Users' algorithms, which are in no table, are spread over so many places behind it."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """light, dark: `#rrggbb` for that background; dash: as SVG's stroke-dasharray, empty for a solid line."""

    light: str
    dark: str
    dash: str


def spelled(label: str) -> str:
    """`fedap:self_weight=0.3` as `FedAP:self_weight=0.3`; users' algorithms stay as they are."""
    name, colon, options = label.partition(":")
    known = STRATEGIES.get(name)
    if known is not None:  # a label that is inherited is the parent's name
        name = vars(known).get("label") or known.__name__
    return name + colon + options


def option_in_short(key: str, value: str) -> str:
    """`self_weight`, `0.7` as `λ=0.7`; a switch that is on as its words; everything else as key=value."""
    if key in _SWITCHED and value.lower() in _SWITCHES:
        return _SWITCHED[key]
    return f"{_SYMBOLS.get(key, key)}={value}"


def place(label: str) -> int:
    """Where an algorithm stands in every list, and which style it has; options behind its name do not change it."""
    names = list(STRATEGIES)
    name = label.partition(":")[0]
    return names.index(name) if name in names else len(names) + zlib.crc32(label.encode()) % _OWN_PLACES


def colour(label: str) -> str:
    """An algorithm's colour on white."""
    return style(place(label)).light


@cache
def style(at: int) -> Style:
    """The style of a place: of the table's algorithms first, then as many others as there are numbers."""
    name = list(STRATEGIES)[at] if at < len(STRATEGIES) else ""
    hue = _HUES.get(name, (_FIRST_FREE_HUE + at * _GOLDEN_ANGLE) % 360.0)
    chroma = 0.02 if name == "fedavg" else _CHROMA
    contrast = _CONTRASTS[0 if name in _HUES else at % len(_CONTRASTS)]
    return Style(
        light=_shade(hue, chroma, background=_LIGHT, contrast=contrast),
        dark=_shade(hue, chroma, background=_DARK, contrast=contrast + 1.0),
        dash="" if name in _SOLID else _DASHES[at % len(_DASHES)],
    )


def contrast_ratio(one: str, other: str) -> float:
    """Of two colours as `#rrggbb`, by WCAG 2: from 1 (equal) to 21 (black on white)."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _shade(hue: float, chroma: float, *, background: str, contrast: float) -> str:
    """The shade of a hue that is nearest to the background in lightness and still has this contrast to it."""
    on_light = _luminance(background) > 0.5
    near, far = (1.0, 0.0) if on_light else (0.0, 1.0)
    for _ in range(20):  # bisection: `far` always has the contrast
        middle = (near + far) / 2
        if contrast_ratio(_hex(middle, chroma, hue), background) >= contrast:
            far = middle
        else:
            near = middle
    return _hex(far, chroma, hue)


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """OKLCH (Ottosson 2020) as sRGB; what the screen cannot show loses chroma until it can."""
    while chroma > 0.0:
        rgb = _rgb(lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue)))
        if all(-0.001 <= value <= 1.001 for value in rgb):
            break
        chroma -= 0.01
    else:
        rgb = _rgb(lightness, 0.0, 0.0)
    return "#" + "".join(f"{round(255 * _encoded(min(1.0, max(0.0, value)))):02x}" for value in rgb)


def _rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _encoded(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
