"""Measures mixing against memory bandwidth: bytes per second that must move (updates read, results written).

The reference is STREAM's copy, which counts the same way, over arrays far larger than any cache, in one thread and on
all cores; mixing is compared with the better of the two. Also measured is what a coordinator does with a large model:
the same product from files to files, with every byte read verified and every byte written hashed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from coordinator.computing.rows import Product, RowForms, mix_files
from coordinator.record.blobs import checksum_of, finish
from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array
from fedap_core.mixing import mixing_from_counts
from protocol.tensors import Layout, WireTensor
from scripts.bench.figures import Measurements, Threshold, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchScope
from scripts.bench.machine import cores
from scripts.bench.sheet import PartResult

BAR = Threshold(must=0.30, goal=0.50, higher=True)
MEMBERS = 20
LARGE, LENET5 = 15_000_000, 44_000
"""Parameters: a large model, and roughly what LeNet-5 shares."""
STORED = 3_000_000
"""Parameters if rows are files: few enough that the disk is not what is measured."""
COPY_BYTES = 400_000_000
SMALL_SECONDS = 0.3
"""Short operations are repeated for this long, to make the clock's resolution irrelevant."""


def measure(scope: BenchScope) -> PartResult:
    """Measure bytes per second of `mix`, 20 members, in place, beside those of a copy."""
    large = scope.sized(LARGE, 300_000)
    rates = {
        "mix of 20 x 15 M": _mixing(large),
        "STREAM copy, one thread": _copying(scope.sized(COPY_BYTES, 4_000_000), 1),
        "STREAM copy, all cores": _copying(scope.sized(COPY_BYTES, 4_000_000), cores()),
        "mix of 20 x 3 M in files": _mixing_files(scope.sized(STORED, 30_000), scope.folder),
        "mix of 20 x LeNet-5": _mixing(LENET5),
        "copy of 20 x LeNet-5": _copying(MEMBERS * LENET5 * 4, 1),
    }
    found = interleave(rates, passes=scope.passes, unit="GB/s", warm_up=1)
    one, all_cores = found["STREAM copy, one thread"], found["STREAM copy, all cores"]
    best = max(one, all_cores, key=lambda series: series.median)
    small = ratio(
        "n = 20, LeNet-5: bytes moved / copy of the same", found["mix of 20 x LeNet-5"], found["copy of 20 x LeNet-5"]
    )
    return PartResult(
        part="aggregate",
        findings=(
            ratio("n = 20, 15 M parameters: bytes moved / STREAM copy", found["mix of 20 x 15 M"], best, BAR),
            ratio("the same / STREAM copy in one thread", found["mix of 20 x 15 M"], one),
            ratio(
                "n = 20, 3 M, from checked files to named files / STREAM copy", found["mix of 20 x 3 M in files"], best
            ),
            small,
        ),
        series=tuple(found.values()),
        notes=(_seconds(found["mix of 20 x 15 M"], large), _seconds(found["mix of 20 x LeNet-5"], LENET5)),
    )


def _seconds(series: Measurements, parameters: int) -> str:
    milliseconds = 1e3 * 2 * MEMBERS * parameters * 4 / (series.median * 1e9)
    return f"{series.name}: {milliseconds:.1f} ms."


def _mixing(parameters: int) -> Callable[[], float]:
    weights = mixing_from_counts(np.ones(MEMBERS, dtype=np.int64))
    table = np.repeat(np.arange(MEMBERS, dtype=np.float32)[:, None] + np.float32(0.5), parameters, axis=1)
    rows: list[Float32Array] = list(table)  # as workers share them with the engine
    return lambda: _rate(lambda: mix(weights, rows, rows), 2 * MEMBERS * parameters * 4)


def _mixing_files(parameters: int, folder: Path) -> Callable[[], float]:
    weights = mixing_from_counts(np.ones(MEMBERS, dtype=np.int64))
    layout = Layout((WireTensor(name="w", dtype="float32", shape=(parameters,)),))
    data = np.full(parameters, 0.5, dtype=np.float32).data.cast("B")
    givers, rows = [], [folder / "rows" / str(number) for number in range(MEMBERS)]
    for number in range(MEMBERS):
        path = folder / f"giver-{number}"
        path.write_bytes(data)
        givers.append(finish(path, layout, "f32", checksum_of(data)))

    forms = RowForms.values(layout, "f32", MEMBERS)

    def mix_once() -> None:
        mix_files(Product.plain(weights, layout), givers, rows, forms)

    return lambda: _rate(mix_once, 2 * MEMBERS * parameters * 4)


def _copying(size_bytes: int, threads: int) -> Callable[[], float]:
    source = np.ones(size_bytes // 4, dtype=np.float32)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))

    def copy() -> None:
        if threads == 1:
            np.copyto(target, source)
            return
        workers = [threading.Thread(target=np.copyto, args=(to, part)) for part, to in parts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return lambda: _rate(copy, 2 * source.nbytes)


def _rate(work: Callable[[], None], size_bytes: int) -> float:
    """Return GB/s over repetitions that fill SMALL_SECONDS, at least one."""
    began, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - began < SMALL_SECONDS:
        work()
        done += 1
    return done * size_bytes / (time.perf_counter() - began) / 1e9
