"""Chooses legible colours: a hue's shade with a given contrast to the page's background, light and dark.

Contrasts are those of WCAG 2; hues are degrees on the OKLCH wheel. Knows no algorithm and no participant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import cos, radians, sin

GOLDEN_ANGLE = 137.508
"""Degrees between two series: neighbours differ as much as possible, however many follow."""

LIGHT, DARK = "#f7f7f5", "#1a1e22"
"""The backgrounds with the least contrast: the page's light background and its dark cards."""

_FIRST_HUE, _CHROMA = 250.0, 0.15
_CONTRASTS = (5.0, 7.0)
"""Alternating contrasts, so that neighbouring hues differ in lightness too; both are above 4.5."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """light, dark: `#rrggbb` for that background; dash: as SVG's stroke-dasharray, empty for a solid line."""

    light: str
    dark: str
    dash: str


@cache
def series_style(number: int) -> Style:
    """Return the style of the n-th of many similar series, such as the members of a run."""
    hue = (_FIRST_HUE + number * GOLDEN_ANGLE) % 360.0
    contrast = _CONTRASTS[number % len(_CONTRASTS)]
    return Style(
        light=shade_with_contrast(hue, _CHROMA, background=LIGHT, contrast=contrast),
        dark=shade_with_contrast(hue, _CHROMA, background=DARK, contrast=contrast + 1.0),
        dash="",
    )


def contrast_ratio(one: str, other: str) -> float:
    """Return the contrast of two colours `#rrggbb`, by WCAG 2: from 1 (equal) to 21 (black on white)."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def shade_with_contrast(hue: float, chroma: float, *, background: str, contrast: float) -> str:
    """Return the shade of a hue that is closest to the background in lightness and still has this contrast to it."""
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
    """Convert OKLCH (Ottosson 2020) to sRGB; chroma is reduced until the colour is displayable."""
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
