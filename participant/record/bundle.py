"""Export the personalised model as one self-describing file for use elsewhere.

A bundle is a model file: all tensors including batch norm, the model's name, classes and preprocessing, and notes on
its provenance and accuracy. Reading one needs no data and no federation.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from fedap_core.choosing import ALONE, BEST, FINE_TUNED
from fedap_core.errors import InvalidInput, require_known
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.record.agreement import read_terms
from participant.record.disk import Disk
from participant.record.kept_models import KeptModels, kept_models
from participant.record.model_card import write_card
from participant.record.model_file import read_spec, write_model
from participant.record.monai_bundle import is_bundle, write_monai
from participant.record.onnx_file import write_onnx
from participant.record.private_state import PERSONAL, START, PrivateState, RunState
from protocol.host.command import require_free

Writer = Callable[[Path, ModelSpec, State, dict[str, str]], None]

WRITERS: Mapping[str, Writer] = {"safetensors": write_model, "onnx": write_onnx, "monai": write_monai}
"""Formats of an exported model: a file for this project, a file for any ONNX runtime, a folder for MONAI."""

_MADE = {
    ALONE: "trained only on the participant's own data, in parallel with the federation",
    FINE_TUNED: "the last federated one, fine-tuned locally",
}
_PROVENANCE = ("run", "participant", "algorithm", "rounds")


def export_bundle(
    state: Path, out: Path, *, force: bool, which: str = BEST, own: bool = False, form: str | None = None
) -> str:
    """Write a model of a state folder, with its notes, to a separate file; return lines that say which one and why.

    which: federated, fine-tuned, alone, or best: the best one on the participant's validation samples. Without a last
    delivery that could be used there is no federated model, and the one kept instead is `own`. own: the model after the
    participant's own last training, which also exists before a run has ended. form: a key of WRITERS; by default from
    the name of `out`: .onnx means onnx, anything else safetensors.
    """
    form = form or ("onnx" if out.suffix == ".onnx" else "safetensors")
    require_known("format", form, WRITERS)
    _require_free(out, form, force=force)
    kept = None if own else _finished(state)
    spec, tensors, notes = _trained_model(state) if kept is None else _chosen_model(kept, which)
    part = out.with_name(f".{out.name}.part")
    try:
        _delete(part)  # of a call that was killed
        WRITERS[form](part, spec, tensors, {**notes, "torch": torch.__version__})
        card = None if kept is None else write_card(out, kept, which, state)
        _put_in_place(part, out)
    except (OSError, InvalidInput) as error:
        found = error.__cause__ if isinstance(error, InvalidInput) else error
        if not isinstance(found, OSError):
            raise
        raise InvalidInput("out", str(out), "a path that can be written", str(found)) from found
    finally:
        with contextlib.suppress(OSError):
            _delete(part)
    name = f"; the model is {notes['model']}" if "model" in notes else ""
    line = (
        f"{out}: {spec.model} of {notes['participant']} after {notes['rounds']} rounds of {notes['algorithm']}, "
        f"{len(spec.classes)} classes, test accuracy {notes.get('test_accuracy', 'unknown')}{name}"
    )
    return line if kept is None else "\n".join([*kept.words(), line, f"{card}: its model card"])


def _require_free(out: Path, form: str, *, force: bool) -> None:
    if form != "monai" or not (force and out.is_dir()):
        require_free(out, force=force)
    elif not is_bundle(out):
        raise InvalidInput("out", str(out), "a new folder, or a bundle to replace")


def _put_in_place(part: Path, out: Path) -> None:
    """Give what was written its name, as the last step: a killed call leaves no model that looks complete. A folder
    cannot be replaced in one step, so the old one is moved aside first."""
    old = out.with_name(f".{out.name}.old")
    if out.is_dir():
        _delete(old)
        out.rename(old)
    part.replace(out)
    _delete(old)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _finished(state: Path) -> KeptModels:
    kept = kept_models(state)
    if kept is None:
        fix = "The run must have ended; see `fedap-participant join`. --own exports your latest local training."
        raise InvalidInput("state", str(state), f"a folder with {PERSONAL}", fix)
    missing = [name for name in _PROVENANCE if name not in kept.notes]
    if missing:
        raise InvalidInput(str(state / PERSONAL), f"no entry {missing[0]}", "a personal model written by join")
    return kept


def _chosen_model(kept: KeptModels, which: str) -> tuple[ModelSpec, State, dict[str, str]]:
    """Return the requested model, with notes that say which it is and why."""
    name = kept.choice.of(which).name
    model, notes = kept.models[name], dict(kept.notes)
    why = kept.choice.sentence if which == BEST else f"requested by --which {which}"
    notes |= {"which": name, "why": why}
    if name in _MADE:
        tallies = {"test": model.candidate.test, "validation": model.candidate.validation}
        notes |= {f"{split}_accuracy": f"{one.accuracy:.6f}" for split, one in tallies.items() if one is not None}
        notes |= {"rounds": str(model.rounds), "model": _MADE[name]}
    return kept.spec, model.model, notes


def _trained_model(state: Path) -> tuple[ModelSpec, State, dict[str, str]]:
    """Return the model after the participant's own last training in its latest run."""
    run = PrivateState(state).current_run()
    folder = state / "state" / (run or "")
    start = folder / START
    kept = None if run is None else read_terms(folder)
    spec = read_spec(start) if start.is_file() else None
    saved = None if spec is None or run is None else RunState(folder, spec, Disk()).last_trained()
    if run is None or spec is None or saved is None or kept is None:
        raise InvalidInput("state", str(state), "a folder in which a round has been trained", "Leave out --own.")
    plan = kept["plan"]
    algorithm = str(plan.get("strategy", "unknown")) if isinstance(plan, Mapping) else "unknown"
    rounds = str(saved.round_no + 1)
    notes = {"run": run, "participant": str(kept.get("participant")), "algorithm": algorithm, "rounds": rounds}
    return spec, dict(saved.model), {**notes, "model": f"own training of round {rounds} (requested by --own)"}
