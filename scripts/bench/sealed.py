"""Measures the cost of sealing: rounds, bytes and mixing of a sealed run beside those of a clear one, and of CKKS.

Rounds and bytes: 20 participants and LeNet-5, federations of processes that are restarted in every pass, bytes as the
coordinator counts them. Mixing is measured in memory, sealed and clear with the coordinator's own functions.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from coordinator.record.traffic import TrafficCounts
from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.mixing import mixing_from_counts
from fedap_core.sealing.fixed_point import WHOLE, Words
from fedap_core.sealing.rows import rounded
from fedap_core.sealing.word_mixing import mix_words
from participant.sealing.group_key import GroupKey
from participant.sealing.updates import SALT_BYTES, Sealer, Upload
from scripts.bench.aggregate import LARGE, LENET5, MEMBERS
from scripts.bench.federation import BenchFederation, Shape
from scripts.bench.figures import BenchResult, Measurements, Threshold, quantity, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BATCH, BenchJob, BenchScope, make_job, standard_job
from scripts.bench.sheet import PartResult

CLEAR, SEALED, CKKS = "clear", "sealed", "CKKS"
ENCODE, UNPAD, ENCRYPT, DECRYPT = "seal an update", "open a sum", "CKKS, encrypt an update", "CKKS, decrypt a sum"
SHAPES = {CLEAR: Shape(), SEALED: Shape(sealed=True)}
SKIPPED = 2
"""First rounds that are not counted: participants connect, exchange statistics and request rows."""
SMALL_SECONDS = 0.3
"""Short operations are repeated for this long, to make the clock's resolution irrelevant."""
WITHOUT_CKKS = "CKKS: not measured. Install it: pip install 'fedap[bench]'"


def measure(scope: BenchScope) -> PartResult:
    """Measure everything beside its clear counterpart, pass after pass."""
    rounds = _interleaved(scope, "round", "s", standard_job(scope), _round_seconds)
    sent = _interleaved(scope, "bytes", "MB", make_job(clients=scope.sized(MEMBERS, 3), samples=BATCH), _round_bytes)
    large = scope.sized(LARGE, 300_000)
    mixed = interleave(
        {f"{CLEAR} mixing, 20 x 15 M": _mixing(large), f"{SEALED} mixing, 20 x 15 M": _mixing_words(large)},
        passes=scope.passes,
        unit="s",
        warm_up=1,
    )
    small: dict[str, Callable[[], float]] = {
        f"{CLEAR} mixing, 20 x LeNet-5": _mixing(LENET5),
        f"{SEALED} mixing, 20 x LeNet-5": _mixing_words(LENET5),
        ENCODE: _sealing(LENET5),
        UNPAD: _opening(LENET5),
    }
    notes: list[str] = []
    has_ckks = importlib.util.find_spec("tenseal") is not None
    if has_ckks:
        small |= _ckks(scope, notes)
    found = rounds | sent | mixed | interleave(small, passes=scope.passes, unit="s", warm_up=0 if has_ckks else 1)
    notes += [] if has_ckks else [WITHOUT_CKKS]
    findings = _findings(found, has_ckks=has_ckks)
    return PartResult(part="sealed", findings=findings, series=tuple(found.values()), notes=tuple(notes))


def _findings(found: Mapping[str, Measurements], *, has_ckks: bool) -> tuple[BenchResult, ...]:
    def beside(what: str, kind: str, bar: Threshold | None = None) -> BenchResult:
        return ratio(what, found[f"{SEALED} {kind}"], found[f"{CLEAR} {kind}"], bar)

    findings = [
        beside("a round of 20 participants, LeNet-5, sealed / clear", "round", Threshold(must=1.15, goal=1.05)),
        beside("bytes of a round, both ways, sealed / clear", "bytes", Threshold(must=2.05, goal=2.0)),
        beside("mixing 20 x 15 M in memory, sealed / clear", "mixing, 20 x 15 M", Threshold(must=8.0, goal=4.0)),
        beside("mixing 20 x LeNet-5 in memory, sealed / clear", "mixing, 20 x LeNet-5"),
        _milliseconds("seal an update of LeNet-5", found[ENCODE]),
        _milliseconds("open a sum of 20 updates of LeNet-5", found[UNPAD]),
    ]
    if has_ckks:
        bar = Threshold(must=20.0, goal=100.0, higher=True)
        sealed = "mixing, 20 x LeNet-5"
        findings += [
            ratio(
                "mixing 20 x LeNet-5: seconds of CKKS / sealed",
                found[f"{CKKS} {sealed}"],
                found[f"{SEALED} {sealed}"],
                bar,
            ),
            _milliseconds("CKKS: encrypt an update of LeNet-5", found[ENCRYPT]),
            _milliseconds("CKKS: decrypt a sum", found[DECRYPT]),
        ]
    return tuple(findings)


def _milliseconds(what: str, series: Measurements) -> BenchResult:
    shown = Measurements(name=series.name, unit="ms", values=tuple(1e3 * value for value in series.values))
    return quantity(what, shown)


# ---- federations


def _interleaved(
    scope: BenchScope, name: str, unit: str, job: BenchJob, figure: Callable[[BenchFederation, int], float]
) -> dict[str, Measurements]:
    rounds = scope.sized(4, 1)
    contenders = {
        f"{kind} {name}": _federated(job, scope.folder / "federation", shape, rounds, figure)
        for kind, shape in SHAPES.items()
    }
    return interleave(contenders, passes=scope.passes, unit=unit)


def _federated(
    job: BenchJob, place: Path, shape: Shape, rounds: int, figure: Callable[[BenchFederation, int], float]
) -> Callable[[], float]:
    def one_pass() -> float:
        try:
            with BenchFederation(job, place, shape) as federation:
                return figure(federation, rounds)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return one_pass


def _round_seconds(federation: BenchFederation, rounds: int) -> float:
    closed = federation.wait_for_rounds(SKIPPED + rounds)
    return (closed[SKIPPED + rounds - 1] - closed[SKIPPED - 1]) / rounds


def _round_bytes(federation: BenchFederation, rounds: int) -> float:
    """Return MB of all members; a round's bytes are still being reported until the next round is closed."""
    federation.wait_for_rounds(SKIPPED + rounds + 2)
    traffic = TrafficCounts(federation.run_folder, key=lambda _closed, _member, round_no, _way: round_no)
    traffic.read()
    return sum(traffic.counted[SKIPPED + number] for number in range(rounds)) / rounds / 1e6


# ---- mixing and sealing, in memory


def _weights() -> FloatArray:
    return mixing_from_counts(np.arange(1, MEMBERS + 1, dtype=np.int64))


def _mixing(parameters: int) -> Callable[[], float]:
    weights = _weights()
    table = np.full((MEMBERS, parameters), 0.5, dtype=np.float32)
    rows: list[Float32Array] = list(table)
    return lambda: _seconds(lambda: mix(weights, rows, rows))


def _mixing_words(parameters: int) -> Callable[[], float]:
    """Mix in place, like the clear one: a tile is read before it is written."""
    row = {str(member): float(weight) for member, weight in enumerate(_weights()[0])}
    whole = rounded(row)
    weights = np.tile(np.asarray([whole[name] for name in row], dtype=np.int64), (MEMBERS, 1))
    table = np.random.default_rng(0).integers(0, 2**64, (MEMBERS, parameters), dtype=np.uint64)

    def read(start: int, tile: Words) -> None:
        tile[:] = table[:, start : start + tile.shape[1]]

    def write(start: int, mixed: Words) -> None:
        table[:, start : start + mixed.shape[1]] = mixed

    return lambda: _seconds(lambda: mix_words(weights, parameters, read=read, write=write))


def _sealer() -> Sealer:
    return Sealer(GroupKey(secret=bytes(32)), "bench")


def _upload(member: int, weight: int = WHOLE) -> Upload:
    return Upload(member=f"c{member}", round_no=0, phase="mixed", salt=bytes([member]) * SALT_BYTES, weight=weight)


def _values(parameters: int) -> Float32Array:
    return np.random.default_rng(0).normal(0.0, 0.1, parameters).astype(np.float32)


def _sealing(parameters: int) -> Callable[[], float]:
    sealer, values = _sealer(), _values(parameters)
    return lambda: _seconds(lambda: sealer.seal(values, _upload(0)))


def _opening(parameters: int) -> Callable[[], float]:
    """Open the sum of 20 updates, each with its own pad."""
    sealer, values = _sealer(), _values(parameters)
    shares = rounded({str(member): 1.0 for member in range(MEMBERS)})
    uploads = [_upload(member, shares[str(member)]) for member in range(MEMBERS)]
    total = np.zeros(parameters + 2, dtype=np.uint64)
    for one in uploads:
        total += sealer.seal(values, one)[:-2].view(np.uint64) * np.uint64(one.weight)
    return lambda: _seconds(lambda: sealer.open_sum(total.view(np.int64), uploads))


def _ckks(scope: BenchScope, notes: list[str]) -> dict[str, Callable[[], float]]:
    from scripts.bench.ckks import CkksUpdates

    updates = CkksUpdates(_values(scope.sized(LENET5, 4_000)), scope.sized(MEMBERS, 3))
    clear = updates.parameters * 4
    notes.append(f"CKKS: {updates.update_bytes / clear:.1f} times the bytes of an update in clear.")
    return {
        f"{CKKS} mixing, 20 x LeNet-5": lambda: _seconds(updates.mix),
        ENCRYPT: lambda: _seconds(updates.encrypt),
        DECRYPT: lambda: _seconds(updates.decrypt),
    }


def _seconds(work: Callable[[], object]) -> float:
    """Return the seconds of one call, over repetitions that fill SMALL_SECONDS."""
    began, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - began < SMALL_SECONDS:
        work()
        done += 1
    return (time.perf_counter() - began) / done
