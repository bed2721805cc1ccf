"""Reports out of what is saved: the update and the goodbye of a finished step, the same in every life of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedap_core.nn.state import State
from participant.record.private_state import SavedRound
from protocol.encodings import Encoding
from protocol.messages import Goodbye, Score, Update
from protocol.tensors import Layout, TensorSet

_SCORE_FIELDS = ("model", "split", "samples", "correct", "loss", "macro_f1")


def update_of(run: str, saved: SavedRound, layout: Layout, encoding: Encoding) -> Update:
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
        weights=TensorSet.of_flat(layout, flat, encoding),
        statistics=_set(saved.extras, "statistics/"),
        tables=_set(saved.extras, "tables/"),
    )


def goodbye_of(run: str, saved: SavedRound) -> Goodbye:
    """The last report of a run."""
    return Goodbye(
        run=run, round_no=saved.round_no, scores=read_scores(saved.facts), tables=_set(saved.extras, "tables/")
    )


def saved_scores(scores: tuple[Score, ...]) -> list[dict[str, object]]:
    """Scores as JSON can hold them; numbers come back as they were."""
    return [{field: getattr(score, field) for field in _SCORE_FIELDS} for score in scores]


def read_scores(facts: Mapping[str, Any]) -> tuple[Score, ...]:
    """Back from `saved_scores`."""
    return tuple(Score(**described) for described in facts["scores"])


def _set(extras: State, prefix: str) -> TensorSet | None:
    arrays = {name[len(prefix) :]: t.numpy() for name, t in extras.items() if name.startswith(prefix)}
    return TensorSet.of(arrays) if arrays else None
