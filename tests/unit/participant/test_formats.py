"""What `fedap-participant formats` and the page of formats say is what the sources read."""

from __future__ import annotations

from pathlib import Path

from participant.cli import main
from participant.data import npz
from participant.data.formats import FORMATS
from tests.support.cohorts import run_command

PAGE = Path(__file__).resolve().parents[3] / "docs" / "data.md"


def test_every_format_is_printed_with_its_options_and_an_example() -> None:
    printed = run_command(main, "formats")
    assert printed.code == 0
    for one in FORMATS:
        assert one.name in printed.out
        assert f"fedap-participant init {one.example}" in printed.out
        assert all(name in printed.out for name in one.options)


def test_the_page_has_the_tables_of_the_sources() -> None:
    """One table of options for every format that has any."""
    parts = []
    for one in FORMATS:
        if one.options:
            rows = [f"| `{name.replace(', ', '`, `')}` | {meaning} |" for name, meaning in one.options.items()]
            kind = "array" if one.options is npz.ARRAYS else "option"
            parts.append("\n".join([f"### {one.name}", "", f"| {kind} | meaning |", "|---|---|", *rows]))
    assert "\n\n".join(parts) in PAGE.read_text(encoding="utf-8")
