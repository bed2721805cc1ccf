"""`fedap-lab leaderboard`: reads options and passes them on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

OUT = Path("runs") / "leaderboard"


def leaderboard(
    data: Annotated[
        str,
        typer.Option(
            help="Data sets, comma-separated: organamnist, har-people, har, chest, watch … Default: all available."
        ),
    ] = "",
    recipe: Annotated[str, typer.Option(help="paper, user or both, comma-separated.")] = "",
    algorithms: Annotated[str, typer.Option(help="As in compare. Default: those of the recipe.")] = "",
    seeds: Annotated[str, typer.Option(help="Comma-separated. Default: those of the data set.")] = "",
    rounds: Annotated[int, typer.Option(help="Rounds per run; 0: as the recipe says.", min=0)] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="The smartwatch data for ten rounds: a minute or two.")
    ] = False,
    run: Annotated[
        bool, typer.Option(help="--no-run: only print the estimated time, and write a page of the existing runs.")
    ] = True,
    keep_models: Annotated[
        bool,
        typer.Option(
            "--keep-models/--drop-models",
            help="--drop-models: delete a data set's models once its runs are complete; what is left can be published.",
        ),
    ] = True,
    jobs: Annotated[int, typer.Option(help="Runs in parallel; 0: one per core.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the results; existing runs are reused.")] = OUT,
) -> None:
    """Run all algorithms on all available data sets, and write one page. Can be stopped and resumed."""
    from scripts.experiments.comparison import names_in, seed_numbers
    from scripts.experiments.leaderboard.boards import Restriction, make_boards
    from scripts.experiments.leaderboard.running import run_leaderboard
    from scripts.experiments.sweep import sweep_options

    asked = Restriction(
        data=tuple(dict.fromkeys(names_in(data))),
        recipes=tuple(dict.fromkeys(names_in(recipe))),
        algorithms=algorithms,
        seeds=tuple(seed_numbers(seeds)) if seeds else (),
        rounds=rounds,
        quick=quick,
    )
    console = Console()
    sweep = sweep_options(out, jobs=jobs, workers=1)
    page = run_leaderboard(make_boards(asked), sweep, console, run=run, drop_models=not keep_models)
    console.print("No run has finished yet." if page is None else f"Page: {page}; CSV and Markdown next to it")
