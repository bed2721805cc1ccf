"""The commands `demo` and `compare`: read options and call experiments. Heavy imports happen when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedap_core.errors import InvalidInput, parse_pairs
from fedap_core.splits import MIN_TRAIN_SAMPLES
from protocol.encodings import ENCODINGS
from protocol.plan import Compute, Sgd
from scripts.engines import ENGINES

DEFAULT_ALGORITHMS = "base,fedavg,fedprox,fedper,fedbn,fedap,d-fedap,f-fedap"
RUNS = Path("runs")
CLIENTS = 20
"""As in the paper."""


LearningRate = Annotated[float | None, typer.Option(help="Step size of local training. Default: 0.01; 0.05 for watch.")]
BatchSize = Annotated[int | None, typer.Option(help="Training samples per step. Default: 32; 16 for watch.")]
Batches = Annotated[str, typer.Option(help="even sizes, or reference: full, the last one smaller.")]
Clients = Annotated[int | None, typer.Option(help="Number of clients (a partition by site has its own). Default: 20.")]
Partition = Annotated[
    str | None,
    typer.Option(
        help="dirichlet-pairs, dirichlet, site or iid. Default: dirichlet-pairs; site for watch, and for synthetic "
        "without --clients."
    ),
]
MinSamples = Annotated[
    int, typer.Option(help="Fewest training samples of a client; data that leave one fewer are refused.")
]
Engine = Annotated[
    str,
    typer.Option(
        help=f"One of {', '.join(ENGINES)}. ray: a cluster or this machine's cores; processes: a real federation."
        " All give the same bits."
    ),
]
Jobs = Annotated[
    int, typer.Option(help="Runs at once; 0: as many as there are cores, or one with an engine that uses them all.")
]
Memory = Annotated[
    float | None,
    typer.Option(
        help="Gigabytes of memory for clients, of all --jobs together; the rest goes to files. Default: half of the "
        "machine's."
    ),
]
RayAddress = Annotated[str, typer.Option(help="With --engine ray: the cluster. Default: RAY_ADDRESS, or this machine.")]
GpusPerActor = Annotated[
    float, typer.Option(help="With --engine ray: GPUs reserved for each actor, 0.25 for a quarter.")
]


def demo(
    rounds: Annotated[int, typer.Option(help="Communication rounds.", min=1)] = 40,
    engine: Annotated[str, typer.Option(help="processes (a real federation) or inline; same results.")] = "processes",
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = RUNS / "demo",
) -> None:
    """Train FedAP+, FedAP, FedBN, FedAvg and Base on smartwatch data of ten people, as processes on this machine."""
    from scripts.experiments.demo import demo_comparison, run_demo
    from scripts.experiments.sweep import sweep_options

    run_demo(rounds, sweep_options(out, runs=len(demo_comparison(rounds).runs), engine=engine), Console())


def compare(
    data: Annotated[str, typer.Option(help="Data set, package.module:factory, or path to npz, csv or images.")],
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated; options as name:key=value:key=value.")
    ] = DEFAULT_ALGORITHMS,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = 100,
    clients: Clients = None,
    partition: Partition = None,
    alpha: Annotated[float, typer.Option(help="Dirichlet concentration; smaller is more uneven.")] = 0.1,
    protocol: Annotated[str, typer.Option(help="paper (half/half) or reference (40/30/30).")] = "paper",
    validation: Annotated[float, typer.Option(help="Fraction of training samples held back for model choice.")] = 0.0,
    min_samples: MinSamples = MIN_TRAIN_SAMPLES,
    model: Annotated[str, typer.Option(help="lenet5, har-cnn, alexnet or package.module:factory.")] = "",
    data_option: Annotated[list[str] | None, typer.Option(help="key=value for the data source; repeatable.")] = None,
    overlapping_windows: Annotated[
        bool, typer.Option(help="Random split of overlapping windows; leaks training data into the test set.")
    ] = False,
    learning_rate: LearningRate = None,
    lr_schedule: Annotated[str, typer.Option(help="constant, or cosine: falling over the run's rounds.")] = "constant",
    lr_floor: Annotated[float, typer.Option(help="Final learning rate, as a fraction of the first one.")] = 0.0,
    momentum: Annotated[float, typer.Option(help="Heavy-ball momentum; reset in every round.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Factor of the squared norm in the loss.")] = 0.0,
    batch_size: BatchSize = None,
    batches: Batches = "even",
    epochs: Annotated[int, typer.Option(help="Local epochs per round.")] = 1,
    anchor: Annotated[str, typer.Option(help="pooled, warmup:ROUNDS or a model file.")] = "pooled",
    start_from: Annotated[str, typer.Option(help="initial or anchor, the same for all algorithms.")] = "initial",
    evaluate_every: Annotated[int, typer.Option(help="Evaluate in every k-th round and in the last ten.")] = 1,
    participation: Annotated[float, typer.Option(help="Fraction of the clients that train in each round.")] = 1.0,
    encoding: Annotated[str, typer.Option(help=f"How weights are encoded: {', '.join(ENCODINGS)}.")] = "f32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    layers: Annotated[str, typer.Option(help="tiled, or stock: torch's own; equal up to rounding.")] = "tiled",
    engine: Engine = "inline",
    mode: Annotated[str, typer.Option(help="barrier, or continuous (needs --engine processes).")] = "barrier",
    participants_per_process: Annotated[int, typer.Option(help="With --engine processes.", min=1)] = 1,
    jobs: Jobs = 0,
    workers: Annotated[int, typer.Option(help="Processes inside each run; 0: the cores that --jobs leaves free.")] = 0,
    memory: Memory = None,
    ray_address: RayAddress = "",
    gpus_per_actor: GpusPerActor = 0.0,
    keep_models: Annotated[bool, typer.Option(help="Save models, so that a run can be resumed.")] = True,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = RUNS,
    track: Annotated[list[str] | None, typer.Option(help="mlflow:URI or tensorboard:FOLDER; repeatable.")] = None,
) -> None:
    """Run algorithms on identical clients and initial weights, and print one table."""
    asked = _settled(dict(locals()))  # all options by name; settings pick theirs, so a new option is listed once
    from scripts.experiments.comparison import Comparison, compare_and_report
    from scripts.experiments.sweep import sweep_options
    from scripts.run.settings import CohortSettings, RunSettings, settings_among

    cohort, run = settings_among(asked, CohortSettings), settings_among(asked, RunSettings, Sgd, Compute)
    comparison = Comparison.of(cohort, run, algorithms=algorithms, seeds=seeds)
    options = sweep_options(
        out, runs=len(comparison.runs), jobs=jobs, workers=workers, keep_models=keep_models, engine=engine,
        participants_per_process=participants_per_process, memory_gb=memory,
        ray_address=ray_address, gpus_per_actor=gpus_per_actor, track=tuple(track or ()),
    )  # fmt: skip
    compare_and_report(comparison, options, Console())


def _division(data: str, clients: int | None, partition: str | None) -> dict[str, object]:
    """Return the default division. By site if ten people or 2000 synthetic samples are too few for 20 clients."""
    by_site = data == "watch" or (data == "synthetic" and clients is None)
    return {
        "clients": CLIENTS if clients is None else clients,
        "partition": partition or ("site" if by_site else "dirichlet-pairs"),
    }


def _settled(asked: dict[str, Any]) -> dict[str, Any]:
    """Convert the options of `compare` into settings."""
    if asked["engine"] != "processes" and asked["participants_per_process"] != 1:
        field = "participants-per-process"
        raise InvalidInput(field, asked["participants_per_process"], "1 without --engine processes")
    return asked | {
        **_division(asked["data"], asked["clients"], asked["partition"]),
        "data_options": parse_pairs("data-option", asked["data_option"] or []),
        "anchor": _anchor(asked["anchor"]),
    }


def _anchor(text: str) -> dict[str, object]:
    kind, _, value = text.partition(":")
    if text == "pooled":
        return {}
    if kind == "warmup":
        return {"kind": "warmup", "rounds": value or 5}
    if Path(text).is_file():
        return {"kind": "file", "path": text}
    raise InvalidInput("anchor", text, "pooled, warmup:ROUNDS or an existing model file")
