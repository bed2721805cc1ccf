"""A minimal SVG library: elements with escaped text, a linear scale, round ticks. Knows no chart and no result.

Colours are classes and CSS variables, never literals, so that one drawing works in light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import NewType

Svg = NewType("Svg", str)
"""Markup that was built here: every text in it is escaped."""


def element(name: str, *children: Svg, **attributes: str | float | None) -> Svg:
    """Return one element. Attribute names: class_ is class, _ is -; None omits an attribute."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(children)
    return Svg(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def words(text: str) -> Svg:
    """Return escaped text between tags."""
    return Svg(escape(text))


def label(text: str, *, x: float, y: float, class_: str = "", anchor: str = "start", title: str = "") -> Svg:
    """Return a text element; `title` is shown when the pointer rests on it."""
    hint = (element("title", words(title)),) if title else ()
    return element("text", *hint, words(text), x=x, y=y, class_=class_ or None, text_anchor=anchor)


def picture(
    *children: Svg, width: float, height: float, described: str, class_: str = "", **data: str | float | None
) -> Svg:
    """Return the whole drawing. described: text for screen readers; data: attributes for the page's script."""
    return element(
        "svg",
        *children,
        class_=f"chart {class_}".strip(),
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        role="img",
        aria_label=described,
        style=f"--w:{_value(width)}px",
        **data,
    )


NARROW_WIDTH = 320.0
"""Width in pixels of a drawing for a phone: drawn at its own size instead of scaled down or cut."""


def by_width(wide: Svg, narrow: Svg) -> Svg:
    """Combine two versions of a drawing; the page shows the one that fits its window."""
    return Svg(f'<div class="wide-only">{wide}</div><div class="narrow-only">{narrow}</div>')


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class AxisScale:
    """Maps low..high to start..stop."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.stop - self.start) * ((value - self.low) / span if span else 0.5)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return round values from low to high: steps of 1, 2 or 5 times a power of ten, at most `about` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


_LETTER = 7.9
_STRONG_LETTER = 8.8
"""Average width in pixels of a letter in a chart, plain and bold, for wide fonts such as DejaVu."""


def room(texts: Iterable[str], *, strong: bool = False) -> float:
    """Return the pixels that the longest of these labels needs."""
    return max(map(len, texts), default=0) * (_STRONG_LETTER if strong else _LETTER)


def short(text: str, limit: int) -> str:
    """Cut a name to `limit` letters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
