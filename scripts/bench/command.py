"""`fedap-lab bench`: runs the requested parts one after the other, prints one table, writes one JSON file."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedap_core.errors import InvalidInput

QUICK = "QUICK: tiny sizes, to check that everything works; the figures mean nothing."
RULE = "Ratios compare parts that ran alternately in the same pass on this machine; median and range are shown."


def bench(
    parts: Annotated[
        list[str] | None, typer.Argument(help="Parts to measure; default: all. --help lists them.")
    ] = None,
    passes: Annotated[int, typer.Option(help="Interleaved passes over all parts.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="JSON file with every pass; runs are stored next to it.")] = Path(
        "bench.json"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes, to check that it works; the figures mean nothing.")
    ] = False,
) -> None:
    """Measure speed as ratios against plain PyTorch, memory bandwidth and raw sockets, with noise and limits.

    Parts: round, startup, memory, aggregate, wire, scale, step, recover, coordinator, sealed. All of them take about
    fifteen minutes on two idle cores. One more runs only when it is named: bytes, accuracy against bytes under every
    encoding, about twenty minutes; its runs, table and figure are kept next to the JSON file, and a stopped one
    resumes.
    """
    from scripts.bench import machine, sheet
    from scripts.bench.job import BenchScope
    from scripts.bench.parts import PARTS, chosen, run_part

    names = chosen(parts or [])
    place = out.absolute().parent
    if not place.is_dir() or out.is_dir():
        raise InvalidInput("out", str(out), "a file in an existing folder")
    here = machine.inspect(place)
    for line in (here.sentence, here.warning, QUICK if quick else None):
        if line:
            typer.echo(line)
    results: list[sheet.PartResult] = []
    for name in names:
        about = f"about {PARTS[name].seconds} s" if not quick else "a moment"
        typer.echo(f"{name}: {PARTS[name].about} ({about}) …")
        with tempfile.TemporaryDirectory(dir=place, prefix=".bench-", ignore_cleanup_errors=True) as folder:
            kept = place / f"{out.stem}-{name}"
            results.append(run_part(name, BenchScope(passes=passes, quick=quick, folder=Path(folder), kept=kept)))
        for line in sheet.sentences(results[-1]):
            typer.echo(f"  {line}")
        record = {
            "machine": asdict(here),
            "busy": here.is_busy,
            "quick": quick,
            "passes": passes,
            "parts": {result.part: sheet.to_json(result) for result in results},
        }
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")  # after every part: the next may fail
    typer.echo("")
    typer.echo(sheet.markdown_table(results), nl=False)
    typer.echo("")
    missed = sum(finding.is_missed for result in results for finding in result.findings)
    typer.echo(f"{RULE} Limits missed: {missed}. {here.warning or ''}".rstrip())
    typer.echo(f"{out}: every pass, versions, machine")
