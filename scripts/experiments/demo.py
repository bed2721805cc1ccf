"""Runs the demo: ten people with a smartwatch, seven physiotherapy exercises, no network; a result in words, a page."""

from __future__ import annotations

from rich.console import Console

from scripts.experiments.comparison import Comparison, compare_and_report
from scripts.experiments.sweep import SweepOptions
from scripts.report.page import write_report
from scripts.run.results import Summary
from scripts.run.run_folder import RunFolder
from scripts.run.settings import CohortSettings

ALGORITHMS = "base,fedavg,fedbn,fedap,fedap-plus"


def demo_comparison(rounds: int) -> Comparison:
    """Return the runs of `compare --data watch`; the paper's settings except where the data set needs others."""
    cohort = CohortSettings(data="watch", partition="site")
    run = {"model": "har-cnn", "rounds": rounds}
    return Comparison.of(cohort.model_dump(), run, algorithms=ALGORITHMS, seeds="0")


def run_demo(rounds: int, options: SweepOptions, console: Console) -> None:
    """Run the demo; print the table, its meaning and the path of the report."""
    console.print("Ten people, one smartwatch each, seven shoulder exercises. No recording leaves its owner.")
    if options.engine == "processes":
        console.print("Each person and the coordinator are separate processes; samples stay in their process.")
    comparison = demo_comparison(rounds)
    summaries = {s.algorithm: s for s in compare_and_report(comparison, options, console)}
    console.print(in_words(alone=summaries["base"], together=summaries["fedap-plus"]))
    page = write_report([RunFolder(options.root, run).path for run in comparison.runs], options.root / "report.html")
    console.print(f"Report: {page}", soft_wrap=True)


def in_words(*, alone: Summary, together: Summary) -> str:
    """Say in one sentence what personalised federation changed for these clients."""
    gained = sum(t > a for a, t in zip(alone.per_client, together.per_client, strict=True))
    change = 100 * (together.last - alone.last)
    verb = "raised" if change > 0 else "did not raise"
    return (
        f"FedAP+ {verb} the mean accuracy: {100 * alone.last:.1f} % alone, {100 * together.last:.1f} % together, "
        f"{change:+.1f} points; {gained} of {len(alone.per_client)} people gained."
    )
