"""FedAP from Python: compare algorithms, run one federation, read results, add your own algorithm.

```python
import fedap

found = fedap.compare("watch", algorithms=["base", "fedavg", "fedap"], rounds=20)
print(found)                      # the table of the comparison
found.plot().savefig("curves.png")
found.accuracy("FedAP")           # numpy: (evaluated rounds, clients)
```

This is a Python interface to `fedap-lab`; the same settings find the same runs again, whether a notebook or the command
created them. Wrong values raise `fedap.InvalidInput` with a one-sentence message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.metrics import QUALITIES
from fedap_core.strategies import STRATEGIES, Strategy
from scripts.experiments.comparison import Comparison
from scripts.experiments.sweep import run_sweep, sweep_options
from scripts.report import tables
from scripts.report.algorithms import style
from scripts.report.page.finding import find_runs
from scripts.report.page.study import Study, make_study
from scripts.report.page.writing import write
from scripts.run.chance import PairedDifference
from scripts.run.records import Run
from scripts.run.results import Headline, Summary, difference, headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["InvalidInput", "Results", "Strategy", "algorithms", "compare", "read", "register", "run"]

Algorithm = str | Strategy | type[Strategy]
"""A name (`"fedap"`, `"fedap:self_weight=0.3"`), a strategy with its options, or a strategy class."""

RUNS = Path("runs")


class Results:
    """Runs that belong to one comparison: the same clients under one or more algorithms and seeds.

    Returned by `compare`, `run` and `read`. Algorithms are named as in `names`; accuracies are between 0 and 1, on the
    clients' own test samples, of the models that are handed over.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._study: Study = make_study(runs)

    @property
    def names(self) -> list[str]:
        """The algorithms, as named in tables and plots."""
        return [algorithm.name for algorithm in self._study.algorithms]

    @property
    def seeds(self) -> list[int]:
        """All seeds that any algorithm ran with."""
        return list(self._study.seeds)

    @property
    def clients(self) -> list[str]:
        """The clients' names, in the order of every array."""
        return list(self._study.clients)

    @property
    def notes(self) -> list[str]:
        """Caveats for comparing the figures, as sentences; often empty."""
        return list(self._study.notes)

    def headline(self, name: str) -> Headline:
        """Last round, last ten rounds, worst client, 10th percentile, convergence, over the algorithm's seeds."""
        return headline(self._summaries(name))

    def accuracy(self, name: str, seed: int | None = None) -> FloatArray:
        """Every client's accuracy in every evaluated round: (rounds, clients), NaN where it was not measured.

        Args:
            name: One of `names`.
            seed: One of `seeds`; the first by default.
        """
        return np.array([record.values("accuracy") for record in self._run(name, seed).evaluated], dtype=np.float64)

    def rounds(self, name: str, seed: int | None = None) -> list[int]:
        """The evaluated rounds, counted from 1: the first axis of `accuracy`."""
        return [record.number + 1 for record in self._run(name, seed).evaluated]

    def mixing(self, name: str, seed: int | None = None) -> FloatArray | None:
        """W, (clients, clients): row i is what client i receives from each other one; None if the run has no W."""
        found = self._run(name, seed).mixing
        return None if found is None else found.weights

    def difference(self, name: str, other: str) -> PairedDifference | None:
        """How much more accurate one algorithm is than another, paired over (client, seed).

        Returns:
            `mean`, `low` and `high` (a 95 % bootstrap interval) as fractions, and `verdict`: "better", "worse" or
            "not told apart". None if the two have no client and seed in common.
        """
        return difference(self._summaries(name), self._summaries(other))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary for each algorithm, seed, evaluated round and client: scores, loss and samples."""
        for algorithm in self._study.algorithms:
            for run in algorithm.runs:
                for record in run.evaluated:
                    for client, score in zip(run.clients, record.scores, strict=True):
                        if score is not None:
                            yield {
                                "algorithm": algorithm.name,
                                "seed": run.seed,
                                "round": record.number + 1,
                                "client": client,
                                "accuracy": score.accuracy,
                                **{name: getattr(score, name) for name in QUALITIES},
                                "loss": score.loss,
                                "samples": score.samples,
                            }

    def frame(self) -> DataFrame:
        """Return `rows` as a pandas DataFrame; pandas is not installed with FedAP."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InvalidInput("pandas", "not installed", "pandas, for `frame`", "pip install pandas") from error
        return pd.DataFrame(list(self.rows()))

    def plot(self) -> Figure:
        """Plot mean accuracy per round, one line per algorithm, in the report's colours; return a matplotlib figure."""
        from scripts.report.figures import draw_curves, new_figure  # matplotlib takes a second to load

        figure = new_figure(7.2, 4.2)
        shades = {algorithm.name: style(algorithm.colour).light for algorithm in self._study.algorithms}
        draw_curves(figure.add_subplot(), self._everything(), colour_of=shades.__getitem__)
        return figure

    def report(self, path: str | Path) -> Path:
        """Write the report as one HTML file that loads nothing from the network; return its path."""
        return write(self._study, Path(path))

    def __str__(self) -> str:
        everything = self._everything()
        text = tables.markdown_table(tables.rows(everything))
        return f"{text}\n{tables.markdown_differences(everything)}" if len(self.names) > 1 else text

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return str(self)

    def _everything(self) -> list[Summary]:
        return [summary for found in self._study.summaries.values() for summary in found]

    def _summaries(self, name: str) -> list[Summary]:
        self._require(name)
        return self._study.summaries[name]

    def _run(self, name: str, seed: int | None) -> Run:
        self._require(name)
        algorithm = next(one for one in self._study.algorithms if one.name == name)
        found = algorithm.runs[0] if seed is None else algorithm.run_of(seed)
        if found is None:
            raise InvalidInput("seed", seed, f"one of {', '.join(map(str, sorted(algorithm.seeds)))}")
        return found

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise InvalidInput("algorithm", name, f"one of {', '.join(self.names)}")


def compare(
    data: str | Path,
    *,
    algorithms: Algorithm | Sequence[Algorithm] = ("base", "fedavg", "fedbn", "fedap"),
    seeds: int | Sequence[int] = (0,),
    rounds: int = 100,
    model: str = "",
    cohort: Mapping[str, object] | None = None,
    engine: str = "inline",
    jobs: int = 0,
    out: str | Path = RUNS,
    quiet: bool = False,
    **settings: object,
) -> Results:
    """Run algorithms on identical clients and initial weights, or read runs that already exist.

    Args:
        data: A known name (`watch`, `synthetic`, `organamnist`, ...), `package.module:factory`, or a path to npz, csv
            or an image folder.
        algorithms: Names with options, strategies, or your own classes, one or several; see `algorithms()` for the
            names.
        seeds: One run for each algorithm and seed.
        rounds: Communication rounds.
        model: `lenet5`, `har-cnn`, `alexnet` or `package.module:factory`; by default the usual one for the data.
        cohort: How data are divided: `clients`, `partition`, `alpha`, `protocol`, `data_options`, ...
        engine: `inline`, or `processes` for a real federation with sockets; both give the same bits.
        jobs: Parallel runs; 0 uses all cores.
        out: Folder of the runs. Runs that already exist there with equal settings are not run again.
        quiet: Print nothing.
        **settings: Other settings of a run: `learning_rate`, `momentum`, `epochs`, `batch_size`, `evaluate_every`, ...

    Returns:
        The runs, ready to be printed, plotted or turned into arrays.
    """
    given = {} if cohort is None else _require("cohort", cohort, Mapping, "a mapping, such as {'clients': 10}")
    data = str(data) if isinstance(data, Path) else data
    divided = {"partition": "site" if data == "watch" else "dirichlet-pairs", **given, "data": data}
    described = {"model": model, "rounds": rounds, **settings}
    labels = ",".join(map(_label, _several("algorithms", algorithms, (str, Strategy, type))))
    numbers = ",".join(map(str, _several("seeds", seeds, (int,))))
    comparison = Comparison.of(divided, described, algorithms=labels, seeds=numbers)
    _require("jobs", jobs, int, "a whole number")
    _require("out", out, (str, Path), "a folder")
    options = sweep_options(Path(out), runs=len(comparison.runs), jobs=jobs, engine=engine)
    return read(*(folder.path for folder in run_sweep(comparison.runs, options, Console(quiet=quiet))))


def run(algorithm: Algorithm, data: str | Path, *, seed: int = 0, **options: Any) -> Results:  # noqa: ANN401
    """Run one federation; accepts all options of `compare`.

    Args:
        algorithm: A name with options, a strategy, or your own class.
        data: As in `compare`.
        seed: Seed of everything random in the run.
        **options: As in `compare`: `rounds`, `engine`, `cohort`, `learning_rate`, ...
    """
    return compare(data, algorithms=[algorithm], seeds=[seed], **options)


def read(*folders: str | Path, where: Mapping[str, str] | None = None) -> Results:
    """Read runs from disk: run folders, a coordinator's run folder, or folders that contain several of either.

    Args:
        *folders: At least one.
        where: Only runs with these settings, e.g. `{"alpha": "0.1"}`, if a folder has runs of several comparisons.
    """
    places = [Path(_require("folder", folder, (str, Path), "the path of a folder")) for folder in folders]
    if where is not None:
        _require("where", where, Mapping, "a mapping, such as {'alpha': '0.1'}")
    return Results(find_runs(places, where))


def algorithms() -> list[str]:
    """Return the names that `compare` accepts, including registered ones."""
    return list(STRATEGIES)


def register(kind: type[Strategy], name: str = "") -> type[Strategy]:
    """Add an algorithm under a name; can be used as a decorator.

    A run is found again by its settings, and the name is one of them: after a code change, choose another name or
    another `out`. In federations over several machines every participant needs the code: there, name the algorithm
    `package.module:Class` instead.

    Args:
        kind: A subclass of `Strategy`: a frozen dataclass whose fields are its options.
        name: Defaults to the class's own `name`.
    """
    if not (isinstance(kind, type) and issubclass(kind, Strategy)):
        raise InvalidInput("algorithm", kind, "a name, or a subclass of fedap.Strategy")
    chosen = name or kind.name
    if not chosen or ":" in chosen or "," in chosen:
        raise InvalidInput("name", chosen, "a name without colon and comma", "Set `name` in the class.")
    if STRATEGIES.get(chosen, kind).__qualname__ != kind.__qualname__:
        raise InvalidInput("name", chosen, f"a name that is not taken ({', '.join(STRATEGIES)})")
    STRATEGIES[chosen] = kind
    return kind


def _require(field: str, given: Any, kind: Any, expected: str) -> Any:  # noqa: ANN401 - whatever a caller passes
    """Return a value of this kind; refuse any other."""
    if not isinstance(given, kind):
        raise InvalidInput(field, given, expected)
    return given


def _several(field: str, given: Any, one: tuple[type, ...]) -> Sequence[Any]:  # noqa: ANN401 - as above
    """Return a sequence; a single value counts as a sequence of it."""
    return [given] if isinstance(given, one) else list(_require(field, given, Iterable, "a list"))


def _label(algorithm: Algorithm) -> str:
    """Return the algorithm as on a command line: `name:option=value`; register a new class."""
    if isinstance(algorithm, str):
        return algorithm
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    register(kind)
    if isinstance(algorithm, type):
        return kind.name
    changed = {
        field.name: getattr(algorithm, field.name)
        for field in dataclasses.fields(kind)
        if getattr(algorithm, field.name) != field.default
    }
    return ":".join([kind.name, *(f"{key}={value}" for key, value in changed.items())])
