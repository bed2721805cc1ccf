"""`fedap-lab reproduce`: reads options and passes them on; slow imports happen when they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scripts.experiments.commands import Batches

OUT = Path("runs") / "reproduce"


def reproduce(
    target: Annotated[
        str, typer.Argument(help="A table or figure of the paper; `list` prints their names, `all` runs all.")
    ] = "list",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    data: Annotated[str, typer.Option(help="Data sets to use instead of the paper's; comma-separated.")] = "",
    seeds: Annotated[str, typer.Option(help="Comma-separated; default 0,1,2, quick 0.")] = "",
    rounds: Annotated[
        int, typer.Option(help="Communication rounds, or total epochs; 0: as the target says.", min=0)
    ] = 0,
    model: Annotated[str, typer.Option(help="Model to use instead of the data set's own.")] = "",
    batches: Batches = "even",
    engine: Annotated[
        str, typer.Option(help="inline, or processes: a real federation; results are identical.")
    ] = "inline",
    jobs: Annotated[
        int, typer.Option(help="Runs in parallel; 0: one per core, or one with --engine processes.", min=0)
    ] = 0,
    workers: Annotated[
        int, typer.Option(help="Processes inside each run; 0: the cores that --jobs leaves free.", min=0)
    ] = 0,
    keep_models: Annotated[bool, typer.Option(help="Save models, so that a run can be resumed.")] = True,
    out: Annotated[Path, typer.Option(help="Folder of the results; existing runs are reused.")] = OUT,
) -> None:
    """Reproduce a table or figure of the paper: CSV, figure, and a page stating whether its claim was reproduced."""
    from scripts.experiments.comparison import names_in, seed_numbers
    from scripts.experiments.reproduce.running import print_list, run_named
    from scripts.experiments.reproduce.target import FULL_SEEDS, QUICK_SEEDS, Scale
    from scripts.experiments.sweep import sweep_options

    console = Console()
    usual = QUICK_SEEDS if quick else FULL_SEEDS
    chosen = tuple(seed_numbers(seeds)) if seeds else usual
    scale = Scale(quick=quick, seeds=chosen, rounds=rounds, model=model, batches=batches)
    asked = list(names_in(data))
    sweep = sweep_options(out, jobs=jobs, workers=workers, engine=engine, keep_models=keep_models)
    if target == "list":  # after the options, so that invalid ones are refused here too
        print_list(console)
        return
    run_named(target, asked, scale, sweep, console)
