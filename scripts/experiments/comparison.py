"""Runs a comparison, several algorithms and seeds on identical clients and initial weights, and writes its results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from fedap_core.errors import InvalidInput, parse_pairs
from fedap_core.strategies import STRATEGIES
from participant.data import load_dataset
from participant.data.base import DataOptions
from scripts.experiments.sweep import SweepOptions, run_sweep
from scripts.report import tables
from scripts.run.mixing_record import SparseMixingRecord
from scripts.run.results import Summary
from scripts.run.run_folder import RunFolder, write_text
from scripts.run.settings import CohortSettings, RunSettings, checked, digest

ALEXNET_FROM = 63
"""By default images at least this large (pixels) are given to AlexNet, smaller ones to LeNet-5."""


DATA_SETTINGS: Mapping[str, Mapping[str, object]] = {"watch": {"learning_rate": 0.05, "batch_size": 16}}
"""Default settings of runs on a data set. Each person with a watch has about a hundred windows: batches are small and
steps large."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All runs of a comparison, seed by seed."""

    runs: tuple[RunSettings, ...]

    @classmethod
    def of(cls, cohort: Mapping[str, object], run: Mapping[str, object], *, algorithms: str, seeds: str) -> Comparison:
        """Build a comparison from command-line settings; an empty model is the paper's for this kind of input."""
        try:
            clients = CohortSettings.model_validate(cohort)
            given = {name: value for name, value in run.items() if value is not None}
            described = {**DATA_SETTINGS.get(clients.data, {}), **given, "cohort": clients, "algorithm": "base"}
            base = RunSettings.model_validate({**described, "model": run["model"] or "lenet5"})
            runs = cls.parse(base, algorithms=algorithms, seeds=seeds).runs  # refuses misspelt names before a download
        except ValidationError as error:
            raise checked(error) from error
        if run["model"]:
            return cls(runs=runs)
        model = default_model(clients)
        return cls(runs=tuple(one.model_copy(update={"model": model}) for one in runs))

    @classmethod
    def parse(cls, base: RunSettings, *, algorithms: str, seeds: str) -> Comparison:
        """Parse `algorithms`, name[:key=value...], comma-separated, and `seeds`, numbers, comma-separated."""
        wanted = names_in(algorithms)
        if not wanted:
            raise InvalidInput("algorithms", algorithms, "at least one name")
        runs = [_with(base, text, seed) for seed in seed_numbers(seeds) for text in wanted]
        if len({run.identity for run in runs}) != len(runs):
            raise InvalidInput("algorithms", algorithms, "every algorithm and seed once")
        return cls(runs=tuple(runs))

    @property
    def identity(self) -> str:
        """A digest that names the comparison."""
        return digest([run.model_dump(mode="json") for run in self.runs])


def _with(base: RunSettings, text: str, seed: int) -> RunSettings:
    name, *pairs = text.split(":")
    while pairs and "=" not in pairs[0] and name not in STRATEGIES:  # package.module:factory has a colon of its own
        name += ":" + pairs.pop(0)
    described = base.model_dump() | {"algorithm": name, "options": parse_pairs(name, pairs), "seed": seed}
    try:
        return RunSettings.model_validate(described)
    except ValidationError as error:
        raise checked(error) from error


def names_in(text: str) -> tuple[str, ...]:
    """Parse comma-separated names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def seed_numbers(seeds: str) -> list[int]:
    """Parse comma-separated numbers."""
    try:
        return [int(text) for text in seeds.split(",")]
    except ValueError as error:
        raise InvalidInput("seeds", seeds, "whole numbers, comma-separated") from error


def default_model(cohort: CohortSettings) -> str:
    """Return the paper's model for this kind of input."""
    shape = load_dataset(cohort.data, DataOptions(options=cohort.data_options)).input_shape
    if len(shape) == 2:
        return "har-cnn"
    return "alexnet" if min(shape[1:]) >= ALEXNET_FROM else "lenet5"


def compare_and_report(comparison: Comparison, options: SweepOptions, console: Console) -> list[Summary]:
    """Make missing runs; print the table and write it as csv and Markdown."""
    first = comparison.runs[0]
    folders = run_sweep(comparison.runs, options, console)
    summaries = [folder.summary() for folder in folders]
    names, protocol = folders[0].members(), first.cohort.protocol_label
    table = tables.rows(summaries)
    title = f"{first.cohort.data}, {len(names)} clients, protocol {protocol}, {first.rounds} rounds"
    console.print(tables.terminal_table(table, title))
    console.print(tables.terminal_qualities(table))
    console.print(tables.QUALITIES_NOTE, soft_wrap=True)
    if len(table) > 1:
        console.print(tables.terminal_differences(summaries))
        console.print(tables.differences_note(summaries), soft_wrap=True)
    path = options.root / re.sub(r"[/.:]", "_", f"compare-{first.cohort.data}-{comparison.identity}")
    write_text(path.with_suffix(".csv"), tables.csv_table(summaries, names, protocol))
    differences = f"\n{tables.markdown_differences(summaries)}" if len(table) > 1 else ""
    qualities = f"\n{tables.markdown_qualities(table)}"
    write_text(path.with_suffix(".md"), f"{title}\n\n{tables.markdown_table(table)}{qualities}{differences}")
    _draw(folders, summaries, title, path)
    files = f"Per client: {path.with_suffix('.csv')}; curves: {path.with_suffix('.png')}"
    console.print(f"{files}; every run has its folder in {options.root}", soft_wrap=True)
    return summaries


def _draw(folders: list[RunFolder], summaries: list[Summary], title: str, path: Path) -> None:
    """Draw the curves, and W of the first run in which distances, not sample counts, determined it."""
    from scripts.report import figures  # takes a second to import, so only after the runs

    figures.convergence_figure(summaries, title, path)
    for folder in folders:
        mixing = folder.mixing_record()
        if isinstance(mixing, SparseMixingRecord) or (mixing is not None and mixing.distances is not None):
            name = path.with_name(f"{path.name}-mixing")
            title = f"W of {folder.settings.label}, seed {folder.settings.seed}"
            figures.mixing_figure(mixing, folder.members(), title, name)
            return
