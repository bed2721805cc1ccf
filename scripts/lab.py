"""The `fedap-lab` command: experiments on one machine. Reads options, calls experiments, prints; decides nothing."""

from __future__ import annotations

import typer

from protocol.host.command import VersionFlag, run_app
from scripts.bench.command import bench
from scripts.drill.command import drill
from scripts.experiments.asynchronous.command import asynchronous
from scripts.experiments.attacks.command import attacks
from scripts.experiments.audit.command import audit
from scripts.experiments.commands import compare, demo
from scripts.experiments.leaderboard.command import leaderboard
from scripts.experiments.reproduce.command import reproduce
from scripts.experiments.sealed_accuracy import sealed_accuracy
from scripts.explore.command import explore
from scripts.fuzz.command import fuzz
from scripts.report.page.command import report

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def lab(_version: VersionFlag = False) -> None:
    """Personalised federated learning on one machine: compare algorithms, reproduce the paper, measure."""


for command in (
    demo, compare, leaderboard, asynchronous, attacks, audit, sealed_accuracy, bench, drill, explore, fuzz, report,
    reproduce,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Entry point: wrong input ends in one line and exit code 2."""
    run_app(app, interrupted="interrupted; the same command resumes the runs")


if __name__ == "__main__":
    main()
