"""Defines a target: which part of the paper it shows, on which data, from which runs, and its findings.

Knows no specific target and writes no file. Runs are described by the lab's own settings, so that equal runs are reused
whichever command made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from pydantic import ValidationError

from fedap_core.errors import InvalidInput, require_known
from protocol.plan import CUTS
from scripts.experiments.comparison import default_model
from scripts.experiments.reproduce.data_sets import DATA_SETS, DataSet
from scripts.experiments.reproduce.judges import ClaimVerdict
from scripts.experiments.reproduce.results import Cell, TargetResults
from scripts.run.settings import CohortSettings, RunSettings, checked

FULL_SEEDS = (0, 1, 2)
QUICK_SEEDS = (0,)
FULL_ROUNDS = 100
QUICK_ROUNDS = 10
FULL_EVALUATE_EVERY = 5
"""As in `fedap-lab compare --rounds 100 --evaluate-every 5`. Quick runs evaluate every round: they are other runs."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is run. rounds 0 and an empty model stand for the values of the data set's own plan."""

    quick: bool = False
    seeds: tuple[int, ...] = FULL_SEEDS
    rounds: int = 0
    model: str = ""
    batches: str = "even"

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InvalidInput("seeds", self.seeds, "at least one seed, none twice")
        require_known("batches", self.batches, CUTS)


@dataclass(frozen=True, kw_only=True)
class DataSetPlan:
    """One data set at one scale. base: a run from which every cell differs only in what it varies."""

    data: DataSet
    scale: Scale
    base: RunSettings

    def cell(
        self,
        algorithm: str,
        *,
        name: str = "",
        at: str = "",
        cohort: Mapping[str, object] | None = None,
        **changes: object,
    ) -> Cell:
        """Return a cell that differs from `base` in the algorithm and the given settings."""
        described = self.base.model_dump() | {"algorithm": algorithm} | changes
        described["cohort"] = described["cohort"] | dict(cohort or {})
        runs = tuple(settled({**described, "seed": seed}) for seed in self.scale.seeds)
        return Cell(data=self.data, name=name or algorithm, at=at, runs=runs)

    def rounds_for(self, epochs: int, *, total: int) -> int:
        """Return how many rounds of `epochs` make exactly `total` epochs."""
        if total % epochs:
            raise InvalidInput(
                "rounds", total, f"a multiple of {epochs}: local epochs times rounds is to stay the same"
            )
        return total // epochs


def cells_of(*algorithms: str) -> Callable[[DataSetPlan], tuple[Cell, ...]]:
    """Return the cells of algorithms between which nothing else differs."""
    return lambda plan: tuple(plan.cell(name) for name in algorithms)


def make_plan(data: DataSet, scale: Scale) -> DataSetPlan:
    """Return the paper's settings for this data set, overridden by `--rounds` and `--model`."""
    cohort: dict[str, object] = {"data": data.name, **data.cohort}
    run: dict[str, object] = {
        "rounds": FULL_ROUNDS, "evaluate_every": FULL_EVALUATE_EVERY, "batches": scale.batches, **data.run
    }  # fmt: skip
    run["model"] = data.model
    if scale.quick:
        cohort |= data.quick_cohort
        run |= {"rounds": QUICK_ROUNDS, "evaluate_every": 1, **data.quick_run}
    if scale.rounds:
        run["rounds"] = scale.rounds
    model = scale.model or run["model"] or default_model(CohortSettings.model_validate(cohort))
    base = settled({**run, "model": model, "cohort": cohort, "algorithm": "base", "seed": scale.seeds[0]})
    return DataSetPlan(data=data, scale=scale, base=base)


def settled(described: Mapping[str, object]) -> RunSettings:
    """Validate settings; an invalid value is reported as the user's error."""
    try:
        return RunSettings.model_validate(described)
    except ValidationError as error:
        raise checked(error) from error


@dataclass(frozen=True, kw_only=True)
class Findings:
    """A target's results. tables: (heading, Markdown); csv: everything, one line per run or row; more: further figures
    as (suffix of the file name, title, figure)."""

    figure: Figure
    csv: str
    tables: tuple[tuple[str, str], ...]
    verdicts: tuple[ClaimVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    more: tuple[tuple[str, str, Figure], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a target shows, beside the results of its runs. root: the folder of the runs."""

    plans: tuple[DataSetPlan, ...]
    root: Path
    title: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """One table or figure of the paper.

    headline: title without a data set, the ones that were run are added to it. needs: the paper's data sets; stated:
    whether the paper names them; stand_in_stem: the file name for other data, if the target's own name is that of a
    data set; cells: what is run on each data set; keep_models: whether the runs' models are needed; divides: whether
    data are divided among clients at all; work: shows the results of the runs.
    """

    name: str
    where: str
    shows: str
    headline: str
    needs: tuple[str, ...]
    work: Callable[[Job, TargetResults], Findings]
    cells: Callable[[DataSetPlan], tuple[Cell, ...]] = lambda _plan: ()
    stated: bool = True
    keep_models: bool = False
    divides: bool = True
    stand_in_stem: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.needs if name not in DATA_SETS]
        if unknown or not self.needs:
            raise InvalidInput(f"target {self.name}", unknown or "no data sets", f"some of {', '.join(DATA_SETS)}")
