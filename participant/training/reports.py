"""Reports out of what is saved: the update and the goodbye of a finished step, the same in every life of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from participant.record.private_state import SavedRound
from participant.training.outgoing import OutgoingTensors
from protocol.messages import Goodbye, Score, Update
from protocol.tensors import Layout, TensorSet

_SCORE_FIELDS = tuple(name for name, _ in Score.CONTRACTS)


def update_of(run: str, saved: SavedRound, layout: Layout, outgoing: OutgoingTensors) -> Update:
    """The report of a trained round; its weights are copies, so that training may go on while they are sent."""
    flat = np.zeros(layout.elements, dtype=np.float32)
    facts: Mapping[str, Any] = saved.facts
    at = 0
    for spec in layout.specs:
        values = saved.model[spec.name].detach().numpy().reshape(-1)
        flat[at : at + values.size] = values
        at += values.size
    return Update(
        run=run,
        round_no=saved.round_no,
        steps=facts["steps"],
        train_loss=facts["train_loss"],
        scores=read_scores(facts),
        weights=outgoing.weights(layout, flat, round_no=saved.round_no),
        statistics=_set(saved, "statistics", outgoing),
        tables=_set(saved, "tables", outgoing),
    )


def goodbye_of(run: str, saved: SavedRound, outgoing: OutgoingTensors) -> Goodbye:
    """The last report of a run."""
    tables = _set(saved, "tables", outgoing)
    return Goodbye(run=run, round_no=saved.round_no, scores=read_scores(saved.facts), tables=tables)


def saved_scores(scores: tuple[Score, ...]) -> list[dict[str, object]]:
    """Scores as JSON can hold them; numbers come back as they were."""
    return [{field: getattr(score, field) for field in _SCORE_FIELDS} for score in scores]


def read_scores(facts: Mapping[str, Any]) -> tuple[Score, ...]:
    """Back from `saved_scores`."""
    return tuple(Score(**described) for described in facts["scores"])


def _set(saved: SavedRound, kind: str, outgoing: OutgoingTensors) -> TensorSet | None:
    arrays = {name: tensor.numpy() for name, tensor in saved.extras_of(kind).items()}
    return outgoing.arrays(kind, arrays, round_no=saved.round_no) if arrays else None
