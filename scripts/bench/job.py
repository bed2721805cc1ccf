"""Defines the measured job: clients with synthetic images, LeNet-5 with batch norm, batch 32, one epoch per round.

Decides sizes and settings, so that every contender of every part does the same work. Test sets are as small as allowed,
and runs are far longer than the measured part: nothing is evaluated while the clock runs, unless requested.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from participant.data import load_dataset
from participant.data.base import DataOptions
from protocol.plan import Sgd
from scripts.run.cohort import Client, Cohort
from scripts.run.settings import CohortSettings, RunSettings

BATCH = 32
LEARNING_RATE = 0.01
ENDLESS_ROUNDS = 100_000
"""The last rounds of a run are evaluated; these are never reached."""
TEST_SAMPLES = 2
"""If nothing is evaluated."""


@dataclass(frozen=True, kw_only=True)
class BenchScope:
    """How much is measured: passes, and whether the bench is only a quick check that everything works."""

    passes: int
    quick: bool
    folder: Path
    """Where runs may write; its content is not kept."""
    kept: Path = Path()
    """Where a long part stores its results, and finds those of an earlier call."""

    def sized(self, whole: int, quick: int) -> int:
        return quick if self.quick else whole


@dataclass(frozen=True, kw_only=True)
class BenchJob:
    """One federation to be measured: all clients' samples, and the settings of a run on them."""

    cohort: Cohort
    settings: RunSettings


@cache
def make_job(
    *,
    clients: int,
    samples: int,
    model: str = "lenet5",
    shape: str = "1x28x28",
    classes: int = 11,
    rounds: int = ENDLESS_ROUNDS,
    evaluated: bool = False,
) -> BenchJob:
    """Make a job. samples: for training, per client; evaluated: every round, on as many further samples. It runs FedBN:
    everything but batch norm is mixed, and no statistics are measured first."""
    each = samples + (samples if evaluated else TEST_SAMPLES)
    options = {"samples": str(clients * each), "sites": "1", "shape": shape, "classes": str(classes)}
    data = load_dataset("synthetic", DataOptions(options=options))
    width = len(str(clients))
    members = []
    for number in range(clients):
        own = np.arange(number * each, (number + 1) * each, dtype=np.int64)
        members.append(Client(name=f"c{number + 1:0{width}d}", splits={"train": own[:samples], "test": own[samples:]}))
    described = CohortSettings(data="synthetic", data_options=options, partition="iid", clients=clients)
    settings = RunSettings(
        cohort=described,
        model=model,
        algorithm="fedbn",
        rounds=rounds,
        sgd=Sgd(learning_rate=LEARNING_RATE, batch_size=BATCH),
        evaluate_every=1 if evaluated else ENDLESS_ROUNDS,
    )
    return BenchJob(cohort=Cohort(data=data, clients=tuple(members)), settings=settings)


def standard_job(scope: BenchScope, *, evaluated: bool = False) -> BenchJob:
    """Return the job of 20 clients with 512 samples each."""
    return make_job(clients=scope.sized(20, 3), samples=scope.sized(512, 64), evaluated=evaluated)
