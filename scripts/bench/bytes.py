"""Measures accuracy against megabytes per participant: the same federation under every encoding, on real data.

Decides the data sets, the recipe and what is compared: the bytes until a round first reaches a target, as a share of
those under f32, and the rounds it takes. Runs are stored in `kept`, so a stopped bench resumes; passes have no effect,
because equal settings give equal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Console

from fedap_core.model_spec import ModelSpec
from protocol.compression import COMPRESSED
from protocol.encodings import BOTH_WAYS, ENCODINGS, Encoding, downward
from protocol.plan import USER_RECIPE
from scripts.bench.bytes_shown import write_shown
from scripts.bench.figures import BenchResult, Measurements, Threshold, ratio
from scripts.bench.job import BenchScope
from scripts.bench.sheet import PartResult
from scripts.experiments.reproduce.data_sets import DATA_SETS
from scripts.experiments.reproduce.target import settled
from scripts.experiments.sweep import run_sweep, sweep_options
from scripts.report.traffic import compressed_share, computed, spec_of
from scripts.run.records import ParticipantBytes
from scripts.run.results import Summary
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

ROUNDS = 30
MEGABYTE = 1e6
BAR = Threshold(must=0.27, goal=0.1)
NO_MORE_ROUNDS = Threshold(must=1.0)


@dataclass(frozen=True, kw_only=True)
class BytesData:
    """A data set with the accuracy that every encoding has to reach. judged: whether the bars apply to it."""

    name: str
    title: str
    target: float
    judged: bool = False
    cohort: Mapping[str, object] = field(default_factory=dict)


DATA = (
    BytesData(name="organamnist", title="OrganAMNIST", target=0.9, judged=True),
    BytesData(name="har", title="UCI HAR", target=0.9),
)
QUICK_DATA = (
    BytesData(
        name="synthetic",
        title="synthetic",
        target=0.01,
        cohort={"clients": 2, "partition": "iid", "data_options": {"samples": "128", "sites": "1"}},
    ),
)


@dataclass(frozen=True, kw_only=True)
class EncodedRun:
    """One encoding on one data set. reached: the first round, from 1, at the target; None if there is none."""

    data: BytesData
    encoding: Encoding
    summary: Summary
    traffic: ParticipantBytes
    reached: int | None

    @property
    def spent(self) -> float | None:
        """Bytes of a participant until the target is reached."""
        return None if self.reached is None else self.traffic.until(self.reached)


def measure(scope: BenchScope) -> PartResult:
    """Measure every encoding on every available data set."""
    console = Console()
    sets = [one for one in (QUICK_DATA if scope.quick else DATA) if DATA_SETS[one.name].is_here(download=True)]
    missing = [] if scope.quick else [DATA_SETS[one.name].absence for one in DATA if one not in sets]
    found: list[EncodedRun] = []
    for data in sets:
        runs = [_settings(data, encoding, rounds=scope.sized(ROUNDS, 2)) for encoding in ENCODINGS]
        folders = run_sweep(runs, sweep_options(scope.kept, runs=len(runs), workers=1), console)
        spec = spec_of(runs[0], scope.kept)
        found += [_encoded(data, folder, spec) for folder in folders]
    notes = [*write_shown(found, scope.kept), *missing] if found else missing
    findings, series = _compared(found)
    return PartResult(part="bytes", findings=tuple(findings), series=tuple(series), notes=tuple(notes))


def _settings(data: BytesData, encoding: Encoding, *, rounds: int) -> RunSettings:
    """Return the settings of FedAP proposed for a new run."""
    cohort = {"data": data.name, **DATA_SETS[data.name].cohort, **data.cohort}
    described = {"cohort": cohort, "model": DATA_SETS[data.name].model, "algorithm": "fedap", "encoding": encoding}
    return settled({**described, **USER_RECIPE, "rounds": rounds})


def _encoded(data: BytesData, folder: RunFolder, spec: ModelSpec) -> EncodedRun:
    run, summary = folder.settings, folder.summary()
    traffic = computed(spec, run.strategy(), encoding=run.encoding)
    share = compressed_share(folder.records())
    differs = run.encoding in BOTH_WAYS
    back = share if differs or downward(run.encoding) in COMPRESSED else 1.0
    once = traffic.once + (1.0 - back) * traffic.down * differs  # the first model is none of the compressed differences
    traffic = replace(traffic, up=traffic.up * share, down=traffic.down * back, once=once)
    reached = next((number + 1 for number, accuracy in summary.curve if accuracy >= data.target), None)
    return EncodedRun(data=data, encoding=run.encoding, summary=summary, traffic=traffic, reached=reached)


def _compared(found: Sequence[EncodedRun]) -> tuple[list[BenchResult], list[Measurements]]:
    """Compare bytes and rounds of every encoding that reaches the target with those of f32."""
    findings: list[BenchResult] = []
    series: list[Measurements] = []
    plain: dict[str, tuple[Measurements, Measurements]] = {}
    for one in found:
        if one.spent is None or one.reached is None:
            continue
        target = f"{one.data.title} to {100 * one.data.target:g} %"
        sizes = Measurements(name=f"{target}, {one.encoding}", unit="MB", values=(one.spent / MEGABYTE,))
        rounds = Measurements(name=f"rounds, {one.encoding}", unit="rounds", values=(float(one.reached),))
        series.append(sizes)
        if one.encoding == "f32":
            plain[one.data.name] = sizes, rounds
        elif one.data.name in plain:
            bytes_of_f32, rounds_of_f32 = plain[one.data.name]
            is_judged = one.data.judged and one.encoding in ("int4", "topk", "coarse")
            findings.append(
                ratio(f"{target}: bytes, {one.encoding} / f32", sizes, bytes_of_f32, BAR if is_judged else None)
            )
            findings.append(
                ratio(
                    f"{target}: rounds, {one.encoding} / f32",
                    rounds,
                    rounds_of_f32,
                    NO_MORE_ROUNDS if is_judged else None,
                )
            )
    return findings, series
