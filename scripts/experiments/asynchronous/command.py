"""`fedap-lab asynchronous`: reads options and runs the study; decides only the defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fedap_core.errors import unknown_name
from scripts.experiments.commands import Batches

QUICK_ROUNDS = 6


def asynchronous(
    data: Annotated[str, typer.Option(help="watch, organamnist, or any data that `compare` takes.")] = "watch",
    algorithms: Annotated[str, typer.Option(help="Comma-separated.")] = "fedap,fedavg",
    conditions: Annotated[str, typer.Option(help="even, slow and lossy, comma-separated.")] = "even,slow,lossy",
    ways: Annotated[str, typer.Option(help="barrier, deadline, continuous.")] = "barrier,deadline,continuous",
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    rounds: Annotated[
        int, typer.Option(help="Rounds of each member; continuous runs get as many updates.", min=1)
    ] = 40,
    clients: Annotated[int, typer.Option(help="Number of clients, if the data are not divided by site.")] = 20,
    slower: Annotated[float, typer.Option(help="How many times slower the slow member is.")] = 10.0,
    lost: Annotated[float, typer.Option(help="Fraction of sent updates that are lost.")] = 0.3,
    batches: Batches = "even",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in a minute or two.")] = False,
    engine: Annotated[str, typer.Option(help="virtual (clock), or processes: real sockets and real time.")] = "virtual",
    least_s: Annotated[float, typer.Option(help="With processes: minimum seconds of training per round.")] = 0.2,
    jobs: Annotated[int, typer.Option(help="Runs in parallel; 0: one per core.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/asynchronous"),
) -> None:
    """Compare accuracy against time for rounds that wait for all, rounds with a deadline, and no barriers.

    With the virtual clock results are deterministic. With processes one member is really slow, and waiting for all
    is compared with not waiting, in real time.
    """
    from rich.console import Console

    from scripts.experiments.asynchronous.conditions import Trouble
    from scripts.experiments.asynchronous.real_clock import run_real_study
    from scripts.experiments.asynchronous.study import AsyncStudy, run_study
    from scripts.experiments.comparison import Comparison, names_in

    site = data in ("watch", "har")
    cohort = {"data": data, "partition": "site" if site else "dirichlet-pairs", "clients": clients}
    length = QUICK_ROUNDS if quick else rounds
    run = {"model": "", "rounds": length, "batches": batches}
    names = "fedap" if quick else algorithms
    study = AsyncStudy(
        runs=Comparison.of(cohort, run, algorithms=names, seeds="0" if quick else seeds).runs,
        conditions=names_in(conditions),
        ways=names_in(ways),
        trouble=Trouble(slower=slower, lost=lost),
    )
    if engine == "virtual":
        run_study(study, out, jobs=jobs or len(os.sched_getaffinity(0)), console=Console())
    elif engine == "processes":
        run_real_study(study, out, least_s=least_s, console=Console())
    else:
        raise unknown_name("engine", engine, ("virtual", "processes"))
