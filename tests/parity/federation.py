"""The tiny federation on which algorithms are compared with textbook code: its data, its settings, one engine run.

Three clients of unequal size whose labels and features differ, four rounds. Decides nothing about algorithms.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.preprocessing import Preprocessing
from fedap_core.randomness import derive_seed
from participant.data.base import Dataset
from participant.record.model_file import make_initial, read_model, write_model
from protocol.plan import Sgd
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.run.cohort import Client, Cohort
from scripts.run.settings import AnchorSettings, CohortSettings, RunSettings

MODEL = "tests.parity.network:make_smooth"
NAMES = ("a", "b", "c")
SHAPE = (1, 6, 6)
ROUNDS = 4
SEED = 6
BATCH = 8
EPOCHS = 2
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.05, 0.5, 0.01
PREPROCESSING = Preprocessing(scale=0.5, offset=0.25)
TRAIN, TEST = (21, 17, 36), (9, 10, 12)
"""17 samples make two batches, of 9 and 8. No batch of two: BN divides by the spread of two values, however
small, and so makes large differences of the last bit."""


@cache
def cohort() -> Cohort:
    """Each class is a bright corner; client k sees it dimmer, noisier and mostly in class k."""
    rng = np.random.default_rng(SEED)
    xs, ys, clients, start = [], [], [], 0
    for number, name in enumerate(NAMES):
        count = TRAIN[number] + TEST[number]
        y = np.where(rng.random(count) < 0.6, number, rng.integers(0, 3, count))
        x = rng.normal(number / 2, 0.5 + number / 4, size=(count, *SHAPE))
        for label, (row, column) in enumerate(((0, 0), (0, 3), (3, 0))):
            x[y == label, :, row : row + 3, column : column + 3] += 1.5 - number / 3
        split = start + TRAIN[number]
        splits = {"train": np.arange(start, split), "test": np.arange(split, start + count)}
        clients.append(Client(name=name, splits=splits))
        xs.append(x.astype(np.float32))
        ys.append(y.astype(np.int64))
        start += count
    data = Dataset(
        name="tiny", x=np.concatenate(xs), y=np.concatenate(ys), classes=("0", "1", "2"), group=np.arange(start),
        preprocessing=PREPROCESSING,
    )  # fmt: skip
    return Cohort(data=data, clients=tuple(clients))


def weights_of_seed(seed: int) -> State:
    """The freshly initialised model of a seed."""
    return _initial(seed)[1]


def order_seed(name: str, round_no: int, which: str = "") -> int:
    """The seed of the order of a client's samples in a round. which: of several trainings in it."""
    return derive_seed(SEED, participant=name, round_no=round_no, purpose="order" + which)


ANCHOR_SEED = 77


@dataclass(frozen=True, kw_only=True)
class ParityOutcome:
    """A run's last models in client order, its W (None where nothing was settled), and what the last round scored.

    delivered: the scores of the models as delivered, where others are handed over.
    """

    models: tuple[State, ...]
    weights: FloatArray | None
    accuracy: tuple[float, ...]
    delivered: tuple[float, ...]
    loss: tuple[float, ...]


@cache
def run(algorithm: str, options: tuple[tuple[str, str | float | bool], ...] = (), clients: int = 3) -> ParityOutcome:
    """One run of the inline engine on the first `clients` clients."""
    whole = cohort()
    chosen = Cohort(data=whole.data, clients=whole.clients[:clients])
    with TemporaryDirectory() as folder:
        root = Path(folder)
        anchor = root / "anchor.safetensors"
        write_model(anchor, *_initial(ANCHOR_SEED))
        settings = RunSettings(
            cohort=CohortSettings(data="tiny", clients=clients),
            model=MODEL,
            algorithm=algorithm,
            options=dict(options),
            rounds=ROUNDS,
            seed=SEED,
            sgd=Sgd(
                learning_rate=LEARNING_RATE,
                momentum=MOMENTUM,
                weight_decay=WEIGHT_DECAY,
                batch_size=BATCH,
                epochs=EPOCHS,
            ),
            anchor=AnchorSettings(kind="file", path=str(anchor)),
        )
        results = run_inline(settings, chosen, EngineOptions(root=root))
        models = tuple(
            read_model(results.models(ROUNDS - 1) / f"{client.name}.safetensors")[1] for client in chosen.clients
        )
        last = json.loads((results.path / "rounds.jsonl").read_text().splitlines()[-1])
        mixing = results.read_mixing()
    return ParityOutcome(
        models=models,
        weights=None if mixing is None else mixing.weights,
        accuracy=tuple(last["test"]["accuracy"]),
        delivered=tuple(last.get("delivered", last)["test"]["accuracy"]),
        loss=tuple(last["test"]["loss"]),
    )


def _initial(seed: int) -> tuple[ModelSpec, State]:
    return make_initial(MODEL, input_shape=SHAPE, classes=("0", "1", "2"), preprocessing=PREPROCESSING, seed=seed)
