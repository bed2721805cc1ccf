"""Predict new samples with a personalised model: a table of probabilities by file name or id.

New files are read by the recipe in the model file; samples with different preprocessing are refused, because
predictions for them would be meaningless. Labels are ignored.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.evaluation import EVALUATION_BATCH
from fedap_core.nn.heads import evaluating
from fedap_core.nn.samples import Samples
from participant.data import load_new
from participant.data.base import DataOptions, NewSamples
from participant.record.model_file import module_of, read_model
from protocol.host.command import require_file


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """names: (n,); probabilities: (n, classes)."""

    classes: tuple[str, ...]
    names: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]

    def to_csv(self) -> str:
        """Return one row per sample: its name, the most likely class, and the probability of every class."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["sample", "predicted", *self.classes])
        for name, row in zip(self.names, self.probabilities, strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            writer.writerow([name, self.classes[best], *(f"{value:.8g}" for value in row)])
        return text.getvalue()


def predict(model: Path, data: str, *, root: Path | None, options: Mapping[str, str]) -> Predictions:
    """Return the model's predictions for every sample of `data`."""
    spec, state, _ = read_model(model)
    given = DataOptions(root=root, options=options, recipe=dict(spec.preprocessing.recipe))
    new = load_new(data, given)
    _require_fits(new, spec)
    module = module_of(spec, state)
    labels = torch.zeros(len(new.x), dtype=torch.int64)
    samples = Samples(x=torch.from_numpy(new.x), y=labels, preprocessing=spec.preprocessing)
    rows: list[tuple[float, ...]] = []
    with evaluating(module), torch.no_grad():
        for batch in samples.inputs(EVALUATION_BATCH):
            rows += [tuple(row) for row in module(batch).softmax(dim=1).tolist()]
    return Predictions(classes=spec.classes, names=new.names, probabilities=tuple(rows))


def _require_fits(new: NewSamples, spec: ModelSpec) -> None:
    if new.preprocessing != spec.preprocessing:
        fix = "Give the data with the same options as for training."
        raise InvalidInput("preprocessing of the data", str(new.preprocessing), f"{spec.preprocessing}", fix)
    if tuple(new.x.shape[1:]) != spec.input_shape:
        raise InvalidInput("input shape of the data", new.x.shape[1:], f"{spec.input_shape}, as in the model file")


def write_predictions(out: Path, predictions: Predictions) -> None:
    """Write the table atomically."""
    require_file(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=out.parent, prefix=f".{out.name}.", delete=False, newline="", encoding="utf-8"
    ) as file:
        file.write(predictions.to_csv())
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(out)
