"""Puts the report together: a comparison in, one HTML file out. Every name is escaped by the template engine.

The file loads nothing: style and script stand in it, drawings are inline. Written whole or not at all.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from fedap_core.errors import InvalidInput
from protocol.host.web.colours import Style
from scripts.report.algorithms import style
from scripts.report.page import wording
from scripts.report.page.leakage import Leakage
from scripts.report.page.overview_view import overview, share
from scripts.report.page.participant_view import participant_views
from scripts.report.page.study import Study
from scripts.report.tables import written_difference


def write(study: Study, out: Path, leakage: Leakage | None = None) -> Path:
    """Write one page about a comparison; returns where it lies."""
    return write_page(render(study, leakage), out)


def write_page(text: str, out: Path) -> Path:
    """Replace a page whole or not at all; returns where it lies."""
    half = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        half.write_text(text, encoding="utf-8")
        half.replace(out)
    except OSError as error:
        raise InvalidInput("out", str(out), "a file that can be written", str(error)) from error
    return out


def render(study: Study, leakage: Leakage | None = None) -> str:
    """The page as text. leakage: what an audit of these runs found."""
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            page=overview(study),
            participants=participant_views(study),
            study=study,
            styles=_styles(study),
            leakage=leakage,
        )
    )


def _styles(study: Study) -> dict[int, Style]:
    """Of the algorithms that are shown, by the number that their classes have."""
    return {algorithm.colour: style(algorithm.colour) for algorithm in study.algorithms}


@cache
def environment() -> Environment:
    """The templates of the lab's pages, with how numbers are written in them."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("scripts.report.page"), PackageLoader("protocol.host.web")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "difference": written_difference,
        "percent": wording.percent,
        "share": share,
        "points": wording.points,
        "size": wording.size,
    }
    return environment
