"""Runs one algorithm, then one more round step by step, and keeps what each party would hold, as input of the audit.

That is: own models, the weights that leave, the mixtures that others receive, W. The attacks are in other modules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.strategies import Evidence, Measure
from participant.record.model_file import read_model
from scripts.engines.base import EngineOptions
from scripts.engines.inline import initial_file, run_inline
from scripts.engines.pool import InlinePool, make_clients
from scripts.run.cohort import Cohort
from scripts.run.private_training import PrivateRows
from scripts.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class Captured:
    """own: models to predict with. updates: whole models after training, of which only `shared` tensors leave. mixed:
    the next delivered models, completed with each client's local tensors. sent, given: (n, values), flat: the shared
    tensors, then what is sent beside them. weights: W."""

    spec: ModelSpec
    initial: State
    shared: tuple[str, ...]
    own: tuple[State, ...]
    updates: tuple[State, ...]
    mixed: tuple[State, ...]
    sent: Float32Array
    given: Float32Array
    weights: FloatArray


def with_updates(captured: Captured, seen: Float32Array) -> Captured:
    """Return a copy in which an attacker sees other values in the sent updates. seen: (n, values), like `sent`."""
    ends = np.cumsum([captured.initial[name].numel() for name in captured.shared])

    def one(update: State, row: Float32Array) -> State:
        parts = dict(zip(captured.shared, np.split(row, ends), strict=False))  # the rest is sent beside the weights
        return {
            name: torch.from_numpy(parts[name].copy()).reshape(tensor.shape) if name in parts else tensor
            for name, tensor in update.items()
        }

    updates = tuple(one(update, row) for update, row in zip(captured.updates, seen, strict=True))
    return replace(captured, updates=updates)


def capture(settings: RunSettings, cohort: Cohort, root: Path, *, workers: int) -> Captured:
    """Complete a run if necessary, then make its next round."""
    options = EngineOptions(root=root, workers=workers)
    folder = run_inline(settings, cohort, options)
    start = initial_file(settings, cohort, options)
    spec, initial, _ = read_model(start)
    clients = make_clients(
        cohort, cohort.clients, start=start, plan=settings.local_plan(), device="cpu",
        buffers=[None] * len(cohort.clients),
    )  # fmt: skip
    pool = InlinePool(clients, spec)
    pool.load(folder.models(settings.rounds - 1))
    own = tuple(client.handed_over(settings.rounds) for client in clients)
    strategy = settings.strategy()
    private = PrivateRows(settings, cohort.names, strategy.travelling(spec))
    private.begin(pool.rows, range(len(clients)))
    pool.train(settings.rounds, Measure.NONE)
    private.release(pool.rows, settings.rounds)
    updates = tuple(client.state() for client in clients)
    mixing = folder.read_mixing()
    if mixing is None:
        mixing = strategy.mixing(Evidence(counts=tuple(client.train_samples for client in clients), stats=()))
    sent = np.stack(pool.rows).copy()
    given = (mixing.weights @ sent.astype(np.float64)).astype(np.float32)
    for row, values in zip(pool.rows, given, strict=True):
        row[...] = values
    mixed = tuple(client.state() for client in clients)
    pool.close()
    shared = tuple(tensor.name for tensor in spec.shared(strategy.home))
    return Captured(
        spec=spec, initial=initial, shared=shared, own=own, updates=updates, mixed=mixed, sent=sent, given=given,
        weights=mixing.weights,
    )  # fmt: skip
