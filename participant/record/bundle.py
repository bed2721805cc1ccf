"""The personalised model for use elsewhere: one self-describing file, and predictions from such a file.

A bundle is a model file: every tensor, BN included, the model's name, its classes, its preprocessing, and notes on
where it comes from and how good it was. Reading one needs no data and no federation.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from fedap_core.choosing import ALONE, BEST, FEDERATED, FINE_TUNED
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.evaluation import EVALUATION_BATCH
from fedap_core.nn.heads import evaluating
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import State
from participant.data import load_dataset
from participant.data.archive import read_archive
from participant.data.base import DataOptions, InputArray
from participant.data.npz import as_inputs
from participant.record.agreement import read_terms
from participant.record.disk import Disk
from participant.record.kept_models import KeptModels, kept_models
from participant.record.model_file import module_of, read_model, read_spec, write_model
from participant.record.private_state import PERSONAL, PrivateState, RunState

_MADE = {
    ALONE: "trained alone on the participant's own data, beside the federation",
    FINE_TUNED: "the federation's last one, fine-tuned at home",
}
_PROVENANCE = ("run", "participant", "algorithm", "rounds")


def export_bundle(state: Path, out: Path, *, force: bool, which: str = BEST, own: bool = False) -> str:
    """Copy a model of a state folder, with its notes, into a file of its own; lines that say what it is and why it.

    which: federated, fine-tuned, alone, or best: what the participant's validation samples say. own: instead, what
    one's own training made last, which is there before a run has ended, too.
    """
    if out.exists() and not force:
        raise InvalidInput("out", str(out), "a file that does not exist yet", "Use --force to replace it.")
    kept = None if own else _finished(state)
    spec, tensors, notes = _trained_model(state) if kept is None else _chosen_model(kept, which)
    write_model(out, spec, tensors, {**notes, "torch": torch.__version__})
    name = f"; the model is {notes['model']}" if "model" in notes else ""
    line = (
        f"{out}: {spec.model} of {notes['participant']} after {notes['rounds']} rounds of {notes['algorithm']}, "
        f"{len(spec.classes)} classes, test accuracy {notes.get('test_accuracy', 'unknown')}{name}"
    )
    return "\n".join([*([] if kept is None else kept.words()), line])


def _finished(state: Path) -> KeptModels:
    kept = kept_models(state)
    if kept is None:
        fix = "The run must have ended; see `fedap-participant join`. With --own, your own latest training is taken."
        raise InvalidInput("state", str(state), f"a folder with {PERSONAL}", fix)
    missing = [name for name in _PROVENANCE if name not in kept.notes]
    if missing:
        raise InvalidInput(str(state / PERSONAL), f"no note on {missing[0]}", "a personal model written by join")
    return kept


def _chosen_model(kept: KeptModels, which: str) -> tuple[ModelSpec, State, dict[str, str]]:
    """The model that was asked for, with notes that say which it is and why."""
    name = kept.choice.of(which).name
    model, notes = kept.models[name], dict(kept.notes)
    why = kept.choice.sentence if which == BEST else f"asked for by --which {which}"
    notes |= {"which": name, "why": why}
    if name != FEDERATED:
        tallies = {"test": model.candidate.test, "validation": model.candidate.validation}
        notes |= {f"{split}_accuracy": f"{one.accuracy:.6f}" for split, one in tallies.items() if one is not None}
        notes |= {"rounds": str(model.rounds), "model": _MADE[name]}
    return kept.spec, model.model, notes


def _trained_model(state: Path) -> tuple[ModelSpec, State, dict[str, str]]:
    """What the participant's own training made last in its latest run."""
    run = PrivateState(state).current_run()
    folder = state / "state" / (run or "")
    start = folder / "start.safetensors"
    kept = None if run is None else read_terms(folder)
    spec = read_spec(start) if start.is_file() else None
    saved = None if spec is None or run is None else RunState(folder, spec, Disk()).last_trained()
    if run is None or spec is None or saved is None or kept is None:
        raise InvalidInput("state", str(state), "a folder in which a round has been trained", "Leave out --own.")
    plan = kept["plan"]
    algorithm = str(plan.get("strategy", "unknown")) if isinstance(plan, Mapping) else "unknown"
    rounds = str(saved.round_no + 1)
    notes = {"run": run, "participant": str(kept.get("participant")), "algorithm": algorithm, "rounds": rounds}
    return spec, dict(saved.model), {**notes, "model": f"own training of round {rounds} (asked for by --own)"}


def predict_csv(model: Path, data: str, options: DataOptions, out: Path) -> str:
    """Probabilities of every class for every sample, as csv; a line that says where."""
    spec, state, _ = read_model(model)
    inputs = _inputs(data, options, spec)
    module = module_of(spec, state)
    samples = Samples(
        x=torch.from_numpy(inputs), y=torch.zeros(len(inputs), dtype=torch.int64), preprocessing=spec.preprocessing
    )
    rows: list[list[float]] = []
    with evaluating(module), torch.no_grad():
        for batch in samples.inputs(EVALUATION_BATCH):
            rows += module(batch).softmax(dim=1).tolist()
    _write(out, spec, rows)
    return f"{out}: {len(rows)} samples, {len(spec.classes)} classes"


def _inputs(data: str, options: DataOptions, spec: ModelSpec) -> InputArray:
    """New samples, with labels or without: labels are never looked at."""
    path = Path(data).expanduser()
    if path.suffix == ".npz" and read_archive(path, names=("y",)).get("y") is None:
        x = as_inputs(read_archive(path).array("x"), f"{path}: x")
    else:
        dataset = load_dataset(data, options)
        if dataset.preprocessing != spec.preprocessing:
            raise InvalidInput("preprocessing of the data", str(dataset.preprocessing), f"{spec.preprocessing}")
        x = dataset.x
    if tuple(x.shape[1:]) != spec.input_shape:
        raise InvalidInput("input shape of the data", x.shape[1:], f"{spec.input_shape}, as in the model file")
    return x


def _write(out: Path, spec: ModelSpec, rows: list[list[float]]) -> None:
    if out.is_dir():
        raise InvalidInput("out", str(out), "a file to write", "That is a folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=out.parent, prefix=f".{out.name}.", delete=False, newline="", encoding="utf-8"
    ) as file:
        writer = csv.writer(file)
        writer.writerow(["sample", "predicted", *spec.classes])
        for number, row in enumerate(rows):
            best = max(range(len(row)), key=row.__getitem__)
            writer.writerow([number, spec.classes[best], *(f"{value:.8g}" for value in row)])
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(out)
