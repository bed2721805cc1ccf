"""Build reports from saved state: the update and the goodbye of a finished step, identical after a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedap_core.arrays import Float32Array
from fedap_core.nn.state import State
from participant.decisions.consent import OrderRefused, Refusal
from participant.record.private_state import SavedRound
from participant.sealing.sealed_run import SealedRun
from participant.training.outgoing import OutgoingTensors
from participant.training.workspace import BESIDE
from protocol.messages import Goodbye, Score, Update
from protocol.tensors import Layout, TensorSet

ARRIVED, LOST = "feedback/arrived", "feedback/lost"
"""Extras of a round: the values the coordinator has, if they differ from the trained ones (a coarse difference, or
noise), and the encoding error of a difference."""

_SCORE_FIELDS = tuple(name for name, _ in Score.CONTRACTS)


def update_of(
    run: str, saved: SavedRound, layout: Layout, outgoing: OutgoingTensors, sealed: SealedRun | None = None
) -> Update:
    """Return the report of a trained round; its weights are copies, so training may continue while they are sent."""
    facts: Mapping[str, Any] = saved.facts
    update = Update(
        run=run,
        round_no=saved.round_no,
        steps=facts["steps"],
        train_loss=facts["train_loss"],
        scores=read_scores(facts),
        weights=_weights(saved, layout, outgoing),
        statistics=_set(saved, "statistics", outgoing),
        tables=_set(saved, "tables", outgoing),
    )
    return update if sealed is None else sealed.update(update, facts)


def travelling_of(saved: SavedRound) -> State:
    """Return the tensors that a trained round may share: the model, and those sent beside it."""
    return saved.model | saved.extras_of(f"home/{BESIDE.rstrip('/')}")


def flat_weights(state: State, layout: Layout) -> Float32Array:
    """Return a copy of the shared values, (elements,). An untrained model has no tensors beside it: they are zeros."""
    flat = np.zeros(layout.elements, dtype=np.float32)
    at = 0
    for spec in layout.specs:
        size = math.prod(spec.shape)
        if spec.name in state:
            flat[at : at + size] = state[spec.name].detach().numpy().reshape(-1)
        at += size
    return flat


def reported_values(saved: SavedRound | None, round_no: int, layout: Layout, outgoing: OutgoingTensors) -> Float32Array:
    """The weights that the coordinator has of a round, (elements,); OrderRefused if it is not the latest finished."""
    fits = saved is not None and (ARRIVED not in saved.extras or saved.extras[ARRIVED].numel() == layout.elements)
    if saved is None or not fits or (saved.kind, saved.round_no) != (Update.KIND, round_no):
        latest = "none" if saved is None else f"{saved.kind} {saved.round_no}"
        reason = f"weights as the difference to update {round_no}, where the latest report is {latest}"
        raise OrderRefused(Refusal(code="wrong-tensors", reason=reason))
    return _weights(saved, layout, outgoing).flat()


def _weights(saved: SavedRound, layout: Layout, outgoing: OutgoingTensors) -> TensorSet:
    if ARRIVED in saved.extras:  # a repeat must give the coordinator the same values
        return outgoing.in_full(layout, saved.extras[ARRIVED].numpy().copy())
    return outgoing.weights(layout, flat_weights(travelling_of(saved), layout), round_no=saved.round_no)


def goodbye_of(run: str, saved: SavedRound, outgoing: OutgoingTensors, sealed: SealedRun | None = None) -> Goodbye:
    """Return the last report of a run."""
    tables = _set(saved, "tables", outgoing)
    facts: Mapping[str, Any] = saved.facts
    scores = read_scores(facts) + read_scores({"scores": facts.get("comparison", ())})
    goodbye = Goodbye(run=run, round_no=saved.round_no, scores=scores, tables=tables)
    return goodbye if sealed is None else sealed.goodbye(goodbye)


def saved_scores(scores: tuple[Score, ...]) -> list[dict[str, object]]:
    """Return scores as JSON values, from which `read_scores` restores the same numbers."""
    return [{field: getattr(score, field) for field in _SCORE_FIELDS} for score in scores]


def read_scores(facts: Mapping[str, Any]) -> tuple[Score, ...]:
    """Restore what `saved_scores` stored."""
    return tuple(Score(**described) for described in facts["scores"])


def _set(saved: SavedRound, kind: str, outgoing: OutgoingTensors) -> TensorSet | None:
    arrays = {name: tensor.numpy() for name, tensor in saved.extras_of(kind).items()}
    return outgoing.arrays(kind, arrays, round_no=saved.round_no) if arrays else None
