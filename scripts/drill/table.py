"""Prints the table at the end of a series of drills: tried, survived, cost, and how to repeat failures."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from scripts.drill.record import DrillRecord

MB = 1_000_000


def show(console: Console, records: Sequence[DrillRecord]) -> None:
    """Print one line per kind, a total, and the command for each failure."""
    table = Table(title="fedap-lab drill")
    for name in (
        "kind",
        "drills",
        "passed",
        "faults injected",
        "worst memory growth",
        "most log bytes",
        "seconds each",
    ):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=name == "kind")
    kinds = list(dict.fromkeys(record.drill.kind for record in records))
    for kind in kinds:
        table.add_row(kind, *_cells([record for record in records if record.drill.kind == kind]))
    if len(kinds) > 1:
        table.add_section()
        table.add_row("all", *_cells(records))
    console.print(table)
    for line in breakdown(records):
        console.print(line)
    for record in records:
        if not record.survived:
            console.print(f"failed: {record.drill.replay}", soft_wrap=True, markup=False, highlight=False)
            for complaint in record.complaints:
                console.print(f"    {complaint}", soft_wrap=True, markup=False, highlight=False)
            if record.folder:
                console.print(f"    logs: {record.folder}", soft_wrap=True, markup=False, highlight=False)


def _cells(records: Sequence[DrillRecord]) -> list[str]:
    if not records:
        return ["0"] * 6
    return [
        str(len(records)),
        str(sum(record.survived for record in records)),
        str(sum(record.struck for record in records)),
        f"{max(record.memory_growth_bytes for record in records) / MB:+.1f} MB",
        f"{max(record.log_bytes for record in records):,}",
        f"{sum(record.seconds for record in records) / len(records):.1f}",
    ]


def breakdown(records: Sequence[DrillRecord]) -> list[str]:
    """Return the results by model and line."""
    groups: dict[str, list[DrillRecord]] = {}
    for record in records:
        drill = record.drill
        if drill.kind == "hostile-coordinator":  # one participant, always small and plain
            continue
        line = "CURVE" if drill.curve else "plain"
        sealed = ", sealed" if drill.sealed else ""
        groups.setdefault(f"{drill.model_bytes:,} bytes, {line}, {drill.mode}{sealed}", []).append(record)
    return [
        f"{name}: {sum(record.survived for record in found)} of {len(found)} passed"
        for name, found in sorted(groups.items())
    ]
