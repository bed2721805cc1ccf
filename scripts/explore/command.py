"""`fedap-lab explore`: explores every order of events and every fault, each configuration in its own process."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from scripts.explore.scope import MODES, Scope


def explore(
    members: Annotated[int, typer.Option(help="Number of participants.")] = 2,
    rounds: Annotated[int, typer.Option(help="Rounds of the run.")] = 2,
    faults: Annotated[int, typer.Option(help="Maximum number of faults on one path.")] = 1,
    mode: Annotated[str | None, typer.Option(help="barrier or continuous; default: both.")] = None,
    sliced: Annotated[
        bool | None, typer.Option("--sliced/--small", help="Payloads in slices, or inside messages; default: both.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="fedavg, or fedap for a run that measures first.")] = "fedavg",
    minutes: Annotated[float, typer.Option(help="Limit for each configuration, in minutes of processor time.")] = 60.0,
    wall_clock: Annotated[bool, typer.Option("--wall-clock", help="Measure --minutes in wall-clock time.")] = False,
    gigabytes: Annotated[float, typer.Option(help="Limit of memory for each configuration.")] = 6.0,
    reduce: Annotated[
        bool, typer.Option("--reduce/--no-reduce", help="Skip equivalent orders of commuting faults.")
    ] = True,
    wander: Annotated[
        bool, typer.Option("--wander", help="Random walks until the time limit, if there are too many paths.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random walks.")] = 0,
) -> None:
    """Explore all paths of a small federation, with the real code between the sockets: messages lost, duplicated,
    delayed or reordered, connections cut or dead, either side killed and restarted, at every point.

    Prints states and transitions. If a law is violated or a path cannot end, prints the steps that lead there and
    exits with code 1.
    """
    modes = MODES if mode is None else (mode,)
    sizes = (False, True) if sliced is None else (sliced,)
    scopes = [
        Scope(
            members=members, rounds=rounds, faults=faults, mode=one, sliced=large, algorithm=algorithm,
            minutes=minutes, wall_clock=wall_clock, gigabytes=gigabytes, reduces=reduce, wander=wander, seed=seed,
        )
        for one in modes
        for large in sizes
    ]  # fmt: skip
    codes = [
        subprocess.run([sys.executable, "-m", "scripts.explore", scope.write()], check=False).returncode  # noqa: S603
        for scope in scopes
    ]
    if any(codes):
        raise typer.Exit(max(codes, key=abs))
