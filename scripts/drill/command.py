"""`fedap-lab drill`: reads options, plays drills, prints the table; decides nothing."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedap_core.errors import InvalidInput

if TYPE_CHECKING:
    from scripts.drill.record import DrillRecord
    from scripts.drill.spec import Drill

WIDTH = 120
"""Columns of the table if the output is not a terminal."""

COUNT = 36
"""Drills if neither a number nor a duration is given: one of every kind with every model and line."""


def drill(
    minutes: Annotated[float | None, typer.Option(help="Run new seeds for this many minutes.", min=0.01)] = None,
    count: Annotated[int | None, typer.Option(help="Number of drills, each with its own seed.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="The first seed; the others follow it.", min=0)] = 0,
    model: Annotated[
        str | None, typer.Option(help="small, large (sent in slices) or a number of bytes; default: alternate.")
    ] = None,
    curve: Annotated[
        bool | None, typer.Option("--curve/--no-curve", help="With or without encryption; default: alternate.")
    ] = None,
    mode: Annotated[str, typer.Option(help="barrier or continuous; only barrier guarantees equal bits.")] = "barrier",
    sealed: Annotated[
        bool, typer.Option("--sealed", help="The members hide their updates from the coordinator.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="How weights are encoded, such as coarse.")] = "f32",
    kind: Annotated[list[str] | None, typer.Option(help="A kind from --list; repeatable. Default: all.")] = None,
    hostile_minutes: Annotated[
        float | None,
        typer.Option(help="Run each kind of hostile traffic for this many minutes, one drill per kind.", min=0.01),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Drills in parallel.", min=1, max=64)] = 2,
    out: Annotated[
        Path, typer.Option(help="Folder for results and the logs of failed drills; an interrupted command resumes.")
    ] = Path("drill"),
    replay: Annotated[int | None, typer.Option(help="Repeat the drill of one seed.")] = None,
    list_kinds: Annotated[bool, typer.Option("--list", help="List the kinds of drills and exit.")] = False,
) -> None:
    """Inject faults into federations of real processes on this machine, and compare their models with undisturbed runs.

    The seed of a drill determines its faults. The exit code is 0 only if all drills passed.
    """
    from scripts.drill.schedule import DEFAULT_KINDS, FLOODS, KINDS, SEALED_KINDS
    from scripts.drill.spec import DrillOptions, parse_encoding, parse_kinds, parse_mode, parse_size

    if list_kinds:
        for name, one in KINDS.items():
            typer.echo(f"{name:<12} {one.about}")
        return
    if out.exists() and not out.is_dir():
        raise InvalidInput("out", str(out), "a folder")
    default = FLOODS if hostile_minutes else SEALED_KINDS if sealed else DEFAULT_KINDS
    choice = DrillOptions(
        kinds=_possible(parse_kinds(kind or [], tuple(KINDS), default), asked=bool(kind), sealed=sealed),
        model_bytes=parse_size(model), curve=curve, mode=parse_mode(mode),
        sealed=sealed, encoding=parse_encoding(encoding, sealed=sealed),
    )  # fmt: skip
    if hostile_minutes is not None:
        choice, count = choice.lasting(hostile_minutes), count or len(choice.kinds)
    if replay is not None:
        seeds: Iterator[int] = iter([replay])
    elif count is not None or minutes is None:
        seeds = iter(range(seed, seed + (count or COUNT)))
    else:
        seeds = itertools.count(seed)
    until = None if minutes is None else time.monotonic() + 60.0 * minutes
    wanted = (
        choice.drill(one) for one in itertools.takewhile(lambda _: until is None or time.monotonic() < until, seeds)
    )
    if not _run(wanted, jobs=jobs, out=out.absolute(), again=replay is not None):
        raise typer.Exit(1)


def _possible(kinds: tuple[str, ...], *, asked: bool, sealed: bool) -> tuple[str, ...]:
    """Leave out kinds that cannot be played here; refuse them instead if the user named them."""
    from scripts.drill.ability import impossible_kinds
    from scripts.drill.schedule import SEALED_KINDS

    if sealed and (clear := next((name for name in kinds if name not in SEALED_KINDS), None)):
        raise InvalidInput("kind", clear, f"with --sealed, one of {', '.join(SEALED_KINDS)}")

    missing = {name: reason for name, reason in impossible_kinds().items() if name in kinds}
    for name, reason in missing.items():
        if asked:
            raise InvalidInput("kind", name, "a kind that can be run here", f"{reason}; see --list for others.")
    for reason in dict.fromkeys(missing.values()):
        left_out = ", ".join(name for name, why in missing.items() if why == reason)
        typer.echo(f"left out: {left_out} ({reason}); the other kinds break connections with a proxy")
    return tuple(name for name in kinds if name not in missing)


def _run(wanted: Iterator[Drill], *, jobs: int, out: Path, again: bool) -> bool:
    """Play the drills not played yet, show all that were requested, and return whether all passed."""
    from rich.console import Console

    from scripts.drill import record as records
    from scripts.drill.ability import tidy_up
    from scripts.drill.table import show

    out.mkdir(parents=True, exist_ok=True)
    tidy_up(out)
    path = out / records.FILE
    earlier = {} if again else {one.drill: one for one in records.read_records(path)}
    console, shown = Console(width=None if sys.stdout.isatty() else WIDTH), []

    def missing() -> Iterator[Drill]:
        for drill in wanted:
            if drill in earlier:
                shown.append(earlier[drill])
            else:
                yield drill

    def done(record: DrillRecord) -> None:
        records.append(path, record)
        shown.append(record)
        said = "survived" if record.survived else f"FAILED: {'; '.join(record.complaints)}"
        console.print(
            f"{len(shown)}: {record.drill.name}, {record.struck} faults, {record.seconds:.1f} s: {said}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )

    left = missing()
    first = next(left, None)
    try:
        if first is not None:
            from scripts.drill.workers import Workers  # imports all that the parties need, which takes seconds

            with Workers(1 if again else jobs, out) as workers:
                workers.run(itertools.chain([first], left), done)
    finally:
        show(console, shown)
    return all(record.survived for record in shown)
