"""`fedap-lab sealed-accuracy`: compares the effect of sealed runs' rounding on accuracy with that of chance.

Training amplifies the smallest difference, so a sealed run is compared with clear runs whose initial weights were
changed by about 1e-7 of their size. Everything else, including the anchor, is the same. Runs are kept: a killed command
resumes where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

DISTURBANCE = 1e-7
"""Relative change of every initial weight, up or down."""
CLEAR, SEALED, DISTURBED = "clear", "sealed", "disturbed"

Tails = Mapping[str, float]
"""Mean test accuracy over the last ten rounds, by run."""


def sealed_accuracy(
    data: Annotated[str, typer.Option(help="Data set, as for compare.")] = "organamnist",
    algorithm: Annotated[str, typer.Option(help="One that can be sealed.")] = "fedap",
    partition: Annotated[str, typer.Option(help="dirichlet-pairs, dirichlet, site or iid.")] = "dirichlet-pairs",
    clients: Annotated[int, typer.Option(min=3, help="Number of clients, if the data are not divided by site.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = 100,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0,1,2",
    disturbed: Annotated[int, typer.Option(min=1, help="Disturbed runs per seed.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/sealed"),
) -> None:
    """Compare the accuracy of a sealed run with an unsealed one, and with unsealed runs after a change of 1e-7."""
    from rich.console import Console

    from scripts.experiments.comparison import Comparison
    from scripts.experiments.sweep import SweepOptions, run_sweep
    from scripts.run.forked import run_in_child

    cohort = {"data": data, "partition": partition, "clients": clients}
    run = {"model": "", "rounds": rounds, "evaluate_every": rounds, "batches": "even"}
    runs = Comparison.of(cohort, run, algorithms=algorithm, seeds=seeds).runs
    sealed = [type(one).model_validate({**one.model_dump(), "sealed": True}) for one in runs]
    found: dict[int, dict[str, float]] = {one.seed: {} for one in runs}
    places = {CLEAR: out, SEALED: out}
    places |= {f"{DISTURBED} {number}": out / f"{DISTURBED}-{number}" for number in range(1, disturbed + 1)}
    for number, (name, root) in enumerate(places.items()):
        if root != out:
            for one in runs:
                run_in_child(partial(_disturb, out, root, one.initial_identity, one.anchor_identity, seed=number))
        options = SweepOptions(root=root, jobs=jobs, keep_models=False)
        for folder in run_sweep(sealed if name == SEALED else runs, options, Console()):
            found[folder.settings.seed][name] = folder.summary().tail
    (out / "sealed-accuracy.md").write_text(table(found), encoding="utf-8")
    typer.echo(table(found), nl=False)


def _disturb(source: Path, root: Path, initial: str, anchor: str, *, seed: int) -> None:
    """Write the model files of a disturbed run: a changed initial model, the same anchor."""
    import torch

    from participant.record.model_file import read_model, write_model

    made = root / "initial" / f"{initial}.safetensors"
    if made.exists():
        return
    spec, state, _ = read_model(source / "initial" / made.name)
    chance = torch.Generator().manual_seed(seed)
    changed = {
        name: tensor * (1.0 + DISTURBANCE * (2.0 * torch.rand(tensor.shape, generator=chance) - 1.0))
        if tensor.is_floating_point()
        else tensor
        for name, tensor in state.items()
    }
    kept = source / "anchors" / f"{anchor}.safetensors"
    if kept.exists():
        (root / "anchors").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, root / "anchors" / kept.name)
    made.parent.mkdir(parents=True, exist_ok=True)
    write_model(made, spec, changed)


def table(found: Mapping[int, Tails]) -> str:
    """Return accuracies by seed, with the sealed run's difference and the spread of the clear runs."""
    from scripts.report.tables import plain_table

    names = list(next(iter(found.values())))
    body = []
    for seed, tails in found.items():
        off, spread = differences(tails)
        body.append(
            [seed, *(f"{100 * tails[name]:.3f} %" for name in names), f"{100 * off:+.3f}", f"{100 * spread:.3f}"]
        )
    return plain_table(["seed", *names, "sealed less clear", "spread of clear runs"], body)


def differences(tails: Tails) -> tuple[float, float]:
    """Return sealed minus clear, and the spread of the clear runs, which differ only by the disturbance."""
    clear = [value for name, value in tails.items() if name != SEALED]
    return tails[SEALED] - tails[CLEAR], max(clear) - min(clear)
