"""`fedap-lab explore`: every order of events and every fault at every point, each configuration in its own process."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from scripts.explore.scope import MODES, Scope


def explore(
    members: Annotated[int, typer.Option(help="Participants.")] = 2,
    rounds: Annotated[int, typer.Option(help="Rounds of the run.")] = 2,
    faults: Annotated[int, typer.Option(help="Most faults on one path.")] = 1,
    mode: Annotated[str | None, typer.Option(help="barrier or continuous; without it, both.")] = None,
    sliced: Annotated[
        bool | None, typer.Option("--sliced/--small", help="Payloads in slices, or inside messages; without it, both.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="fedavg, or fedap for a run that measures first.")] = "fedavg",
    minutes: Annotated[float, typer.Option(help="Longest time for each configuration.")] = 60.0,
    wander: Annotated[
        bool, typer.Option("--wander", help="Random walks until the time is over, where every path would be too many.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the walks.")] = 0,
) -> None:
    """Explore every path of a small federation on the real code between the sockets: messages lost, doubled, late or
    overtaken, connections cut or dead, either side killed and started again, at every point.

    Prints states, transitions and, where a law breaks or a path cannot end, the steps that lead there; then the exit
    code is 1.
    """
    modes = MODES if mode is None else (mode,)
    sizes = (False, True) if sliced is None else (sliced,)
    scopes = [
        Scope(
            members=members, rounds=rounds, faults=faults, mode=one, sliced=large, algorithm=algorithm,
            minutes=minutes, wander=wander, seed=seed,
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
