"""Trains the lab's own anchor, the model that W is measured under, on a share of the pooled training halves.

No test or validation sample is ever used. The anchor is stored beside the runs under its own identity, so that every
algorithm of a comparison uses the same file.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import FlatModel
from fedap_core.nn.training import Randomness, train
from fedap_core.randomness import derive_seed, generator
from participant.record.model_file import module_of, read_model, read_notes, read_spec, write_model
from participant.training.local import use_threads
from protocol.plan import Sgd
from scripts.run.cohort import Cohort
from scripts.run.provenance import FINGERPRINT, require_same_fingerprint
from scripts.run.settings import RunSettings


def anchor_samples(cohort: Cohort, *, share: float, seed: int) -> IndexArray:
    """Draw the positions of the samples that train the anchor: a random share of all clients' training samples."""
    pool = np.concatenate([client.splits["train"] for client in cohort.clients])
    count = max(2, round(share * len(pool)))
    chosen: IndexArray = np.sort(generator(seed, purpose="anchor-samples").choice(pool, size=count, replace=False))
    return chosen


def train_pooled_anchor(settings: RunSettings, cohort: Cohort, initial: Path, path: Path) -> None:
    """Train the anchor and write it to `path`."""
    use_threads(settings.compute.threads)
    spec, state, _ = read_model(initial)
    samples = cohort.gather(
        anchor_samples(cohort, share=settings.anchor.share, seed=settings.seed), torch.device("cpu")
    )
    model = FlatModel(module_of(spec, state), spec.tensors, frozenset())
    metrics = train(
        model,
        samples,
        settings=Sgd(
            learning_rate=settings.sgd.learning_rate,
            batch_size=settings.sgd.batch_size,
            batches=settings.sgd.batches,
            epochs=settings.anchor.epochs,
        ),
        randomness=Randomness(
            order=derive_seed(settings.seed, purpose="anchor-order"),
            noise=derive_seed(settings.seed, purpose="anchor-noise"),
        ),
    )
    if not (math.isfinite(metrics.loss) and bool(torch.isfinite(model.flat).all())):
        raise InvalidInput(
            "anchor", "values that are not finite", "finite weights", "Training diverged: lower the learning rate."
        )
    notes = {"anchor": settings.anchor.model_dump_json(), FINGERPRINT: cohort.fingerprint}
    write_model(path, spec, model.state(), notes)


def require_trained_on(path: Path, cohort: Cohort, source: str) -> None:
    """Refuse an anchor that was trained on other data; one of an earlier version does not say on which. source: the
    name of the data."""
    stored = read_notes(path).get(FINGERPRINT)
    if stored is not None:
        require_same_fingerprint(source, stored, cohort.fingerprint, path, "file")


def require_same_model(path: Path, spec: ModelSpec) -> None:
    """Refuse an anchor file of another model than the run's; reads its description only, no tensors."""
    found = read_spec(path)
    if (found.tensors, found.classes) != (spec.tensors, spec.classes):
        raise InvalidInput("anchor", str(path), f"a model file of {spec.model} with the same tensors and classes")
