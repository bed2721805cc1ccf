"""Assembles the report: a comparison in, one HTML file out. The template engine escapes every name.

The file loads nothing: style, script and drawings are inline. It is written atomically.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from fedap_core.errors import InvalidInput
from protocol.host.command import require_file
from scripts.report.algorithms import style
from scripts.report.page import wording
from scripts.report.page.leakage import Leakage
from scripts.report.page.overview_view import overview
from scripts.report.page.participant_view import participant_views
from scripts.report.page.study import Study
from scripts.report.tables import QUALITIES_NOTE, written_difference
from scripts.run.run_folder import write_text


def write(study: Study, out: Path, leakage: Leakage | None = None) -> Path:
    """Write one page about a comparison and return its path."""
    return write_page(render(study, leakage), out)


def write_page(text: str, out: Path) -> Path:
    """Replace a page atomically and return its path."""
    require_file(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, text)
    except OSError as error:
        raise InvalidInput("out", str(out), "a file that can be written", str(error)) from error
    return out


def render(study: Study, leakage: Leakage | None = None) -> str:
    """Return the page as text. leakage: what an audit of these runs found."""
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            page=overview(study),
            participants=participant_views(study),
            study=study,
            styles={algorithm.colour: style(algorithm.colour) for algorithm in study.algorithms},
            leakage=leakage,
            qualities_note=QUALITIES_NOTE,
        )
    )


@cache
def environment() -> Environment:
    """Return the templates of the lab's pages, with filters that format numbers."""
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
        "share": wording.share,
        "points": wording.points,
        "size": wording.size,
    }
    return environment
