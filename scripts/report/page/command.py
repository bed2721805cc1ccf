"""The `report` command: folders in, one HTML file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders with runs in them.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    where: Annotated[list[str] | None, typer.Option(help="Only runs with setting=value; repeatable.")] = None,
    group_key: Annotated[
        Path | None, typer.Option(help="The members' common key, to read the scores of a run that seals them.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Your own state folder of that run, as given to join.")] = None,
) -> None:
    """Write one self-contained HTML page about a comparison."""
    from fedap_core.errors import parse_pairs
    from scripts.report.page import write_report

    chosen = {key: str(value) for key, value in parse_pairs("where", where or []).items()}
    typer.echo(f"Report: {write_report(runs, out, where=chosen, group_key=group_key, state=state)}")
