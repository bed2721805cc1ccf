"""Collects the results of a target's runs by data set, algorithm and setting, averages over seeds, writes csv.

Accuracies are in per cent. Means are over all seeds; single clients are the first seed's, since every seed has its own
clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.console import Console

from fedap_core.errors import InvalidInput
from scripts.experiments.reproduce.data_sets import DataSet
from scripts.experiments.sweep import SweepOptions, run_sweep
from scripts.report.tables import csv_text
from scripts.run.results import Headline, Summary, headline, mean_or_none
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One algorithm at one value of the setting that the target varies, over all seeds."""

    data: DataSet
    name: str
    at: str
    runs: tuple[RunSettings, ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A cell with the results of its runs, seed by seed."""

    cell: Cell
    folders: tuple[RunFolder, ...]
    summaries: tuple[Summary, ...]

    @cached_property
    def headline(self) -> Headline:
        """Means over seeds, as fractions of 1."""
        return headline(self.summaries)

    @property
    def mean(self) -> float:
        return 100 * self.headline.last

    @property
    def deviation(self) -> float | None:
        return None if self.headline.deviation is None else 100 * self.headline.deviation

    @property
    def converged(self) -> float | None:
        """The mean round from which the curve stays near its final value; None if a seed did not converge."""
        return self.headline.converged

    @property
    def clients(self) -> tuple[float, ...]:
        return tuple(100 * value for value in self.summaries[0].per_client)

    def reaches(self, level: float) -> float | None:
        """Return the mean round (from 1) in which accuracy first reaches `level`; None if a seed never does."""
        rounds = [next((at + 1 for at, value in run.curve if 100 * value >= level), None) for run in self.summaries]
        return mean_or_none(rounds)


@dataclass(frozen=True, kw_only=True)
class TargetResults:
    """All cells of a target."""

    measured: tuple[Measured, ...]

    def one(self, data: str, name: str, at: str = "") -> Measured:
        """Return the cell of that data set, name and setting."""
        for measured in self.measured:
            if (measured.cell.data.name, measured.cell.name, measured.cell.at) == (data, name, at):
                return measured
        raise InvalidInput("cell", f"{data} {name} {at}", "one that was run")

    def means(self, data: str, at: str = "") -> dict[str, float]:
        """Return name -> mean, in the order of the cells."""
        chosen = [m for m in self.measured if (m.cell.data.name, m.cell.at) == (data, at)]
        return {m.cell.name: m.mean for m in chosen}

    def data(self) -> list[str]:
        return list(dict.fromkeys(m.cell.data.name for m in self.measured))

    def names(self) -> list[str]:
        return list(dict.fromkeys(m.cell.name for m in self.measured))

    def settings(self) -> list[str]:
        return list(dict.fromkeys(m.cell.at for m in self.measured))

    def summaries(self, data: str) -> list[Summary]:
        """Return the summaries of all runs on that data set, seed by seed."""
        chosen = [m for m in self.measured if m.cell.data.name == data]
        return [run for m in chosen for run in m.summaries]

    def csv(self) -> str:
        """Return one line per run: its settings, its headline, and every client's last accuracy."""
        widest = max(len(run.per_client) for m in self.measured for run in m.summaries)
        rows: list[Sequence[object]] = [
            ["data", "algorithm", "setting", "seed", "protocol", "model", "clients", "rounds", "epochs", "last", "tail",
             "converged", *(f"client {number}" for number in range(1, widest + 1))]
        ]  # fmt: skip
        for measured in self.measured:
            for run, summary in zip(measured.cell.runs, measured.summaries, strict=True):
                clients = [f"{100 * value:.3f}" for value in summary.per_client]
                rows.append(
                    [run.cohort.data, measured.cell.name, measured.cell.at, run.seed, run.cohort.protocol_label,
                     run.model, len(clients), run.rounds, run.sgd.epochs, f"{100 * summary.last:.3f}",
                     f"{100 * summary.tail:.3f}", "" if summary.converged is None else summary.converged,
                     *clients, *[""] * (widest - len(clients))]
                )  # fmt: skip
        return csv_text(rows)


def run_cells(cells: Sequence[Cell], sweep: SweepOptions, console: Console) -> TargetResults:
    """Make the missing runs of all cells, cohort by cohort, and read the results in the order of the cells."""
    runs = {(run.identity, run.rounds): run for cell in cells for run in cell.runs}
    run_sweep(sorted(runs.values(), key=_cohort_of), sweep, console)
    measured = []
    for cell in cells:
        folders = tuple(RunFolder(sweep.root, run) for run in cell.runs)
        measured.append(Measured(cell=cell, folders=folders, summaries=tuple(one.summary() for one in folders)))
    return TargetResults(measured=tuple(measured))


def _cohort_of(run: RunSettings) -> tuple[str, int]:
    """Sort key that puts runs on the same clients together: a sweep holds one cohort at a time."""
    return run.cohort.model_dump_json(), run.seed
