"""Check models from the coordinator before they are used.

The initial model must equal the participant's own file, if it has one; the anchor must stay the same for a whole run,
so that a coordinator cannot have the same data measured under several models; values must be sound (`soundness`).
Called by the training thread. `consent` has already checked that the plan permits the order.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.decisions.consent import OrderRefused, Refusal
from participant.decisions.layouts import floating_layout
from participant.record.model_file import read_model
from participant.record.private_state import RunState
from participant.training.outgoing import model_of, weights_of
from participant.training.soundness import unsound
from protocol.messages import Anchor, Finish, Train, Welcome
from protocol.tensors import Layout, TensorSet

ANCHOR_FILE = "anchor.digest"


def initial_model(welcome: Welcome, spec: ModelSpec, files: RunState, own_file: Path | None) -> State:
    """Return the model of round 0 from `welcome`. InvalidInput if it is unsound or differs from the own file."""
    if welcome.initial is None:
        raise InvalidInput("state", str(files.path), "the initial model of this run", "Join it again.")
    state = model_of(welcome.initial, spec, "initial model")
    refused = unsound_state(state, spec, "initial model")
    if refused is not None:
        raise InvalidInput("welcome.initial", refused.reason, "a model with sound values")
    if own_file is not None:
        other = _differing(state, own_file)
        if other is not None:
            fix = "Ask the federation's operator for its initial model file."
            raise InvalidInput("welcome.initial", f"other values of {other}", f"those of {own_file}", fix)
    return state


def anchor_model(order: Anchor, spec: ModelSpec, files: RunState, start: State, own_file: Path | None = None) -> State:
    """Return the model to measure under: the start model, or the order's weights if they are sound, the same in every
    order of the run, and equal to the participant's own file, if it has one."""
    if order.weights is None:
        return start
    state = model_of(order.weights, spec, "anchor", fill=start)
    if own_file is not None and (other := _differing(state, own_file)) is not None:
        reason = f"anchor {order.round_no}: got other values of {other}, expected those of {own_file}"
        raise OrderRefused(Refusal(code="bad-field", reason=reason))
    refused = unsound_state(state, spec, f"anchor {order.round_no}")
    if refused is not None:
        raise OrderRefused(refused)
    path, digest = files.path / ANCHOR_FILE, state_digest(state)
    kept = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else digest
    if kept != digest:
        reason = f"anchor {order.round_no}: got another model than before, expected one anchor for the whole run"
        raise OrderRefused(Refusal(code="bad-field", reason=reason))
    if not path.is_file():
        files.write_note(ANCHOR_FILE, digest + "\n")
    return state


def _differing(state: State, own_file: Path) -> str | None:
    """Return the name of a tensor that differs from the participant's own file; None if all are equal."""
    _, own, _ = read_model(own_file)
    return next((name for name in state if name not in own or not torch.equal(state[name], own[name])), None)


def delivered_values(
    order: Train | Finish, weights: TensorSet, layout: Layout, *, own: Float32Array, spec: ModelSpec
) -> tuple[Float32Array | None, Refusal | None]:
    """Return (values, None), or (None, why they must not replace the participant's own).

    own: the participant's latest model, or its start model. A late member that refuses a model because it has moved too
    far trains its own model for a round.
    """
    what = f"{order.KIND} {order.round_no}"
    try:
        values = weights_of(weights, layout, what)
    except InvalidInput as error:
        if isinstance(order, Train):
            raise
        return None, Refusal(code="wrong-tensors", reason=str(error))
    refused = unsound(values, layout, what, own=own, variances=spec.variances)
    return (values, None) if refused is None else (None, refused)


def require_finite(state: State, round_no: int) -> None:
    """Raise InvalidInput if training produced values that are not finite; the previous model is kept."""
    bad = next((name for name, tensor in state.items() if not torch.isfinite(tensor).all()), None)
    if bad is not None:
        fix = "The learning rate is too high for this data; the model of the previous round is kept."
        raise InvalidInput(f"training of round {round_no + 1}", f"tensor {bad} not finite", "finite values", fix)


def unsound_state(state: State, spec: ModelSpec, what: str) -> Refusal | None:
    """Why the values of a whole model, except its counters, are unsound; None if they are sound."""
    layout = floating_layout(spec)
    if not layout.specs:
        return None
    flat = np.concatenate([state[one.name].numpy().reshape(-1) for one in layout.specs])
    return unsound(flat.astype(np.float32, copy=False), layout, what, variances=spec.variances)


def state_digest(state: State) -> str:
    """Return a digest that identifies a model."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
