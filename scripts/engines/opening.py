"""Chooses the pool of a run's clients: in this process or in forked workers, all in memory or one at a time.

The bits are the same everywhere; the choice depends on the number of workers and on whether all clients fit in memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from fedap_core.nn.state import flat_size
from participant.record.model_file import read_spec
from scripts.engines.base import EngineOptions
from scripts.engines.forked_pool import ForkedPool
from scripts.engines.pool import ClientPool, InlinePool, make_clients
from scripts.engines.stored_pool import StoredPool, living_bytes
from scripts.engines.tables import MappedRows
from scripts.run.cohort import Cohort
from scripts.run.settings import RunSettings


def open_pool(settings: RunSettings, cohort: Cohort, start: Path, options: EngineOptions) -> ClientPool:
    """Make the pool. start: the model file that every client starts from."""
    plan = settings.local_plan()
    forks = options.workers > 1 and settings.device == "cpu"
    if living_bytes(cohort, read_spec(start), plan) > options.memory_bytes:
        return _stored(settings, cohort, start, options, workers=options.workers if forks else 1)
    if forks:
        return _forked(settings, cohort, start, workers=options.workers)
    buffers = [None] * len(cohort.clients)
    clients = make_clients(cohort, cohort.clients, start=start, plan=plan, device=settings.device, buffers=buffers)
    return InlinePool(clients, read_spec(start))


def _forked(settings: RunSettings, cohort: Cohort, start: Path, *, workers: int) -> ForkedPool:
    plan, spec = settings.local_plan(), read_spec(start)
    count, size = len(cohort.clients), flat_size((*spec.tensors, *plan.strategy.beside(spec)), plan.strategy.home)
    table = MappedRows(None, count, size, np.dtype(np.float32)).array
    shared = sum(tensor.size for tensor in plan.strategy.travelling(spec))

    def make_pool(mine: range) -> InlinePool:
        buffers = [torch.from_numpy(table[place]) for place in mine]
        chosen = [cohort.clients[place] for place in mine]
        return InlinePool(make_clients(cohort, chosen, start=start, plan=plan, device="cpu", buffers=buffers), spec)

    return ForkedPool([row[size - shared :] for row in table], make_pool, workers=workers)


def _stored(settings: RunSettings, cohort: Cohort, start: Path, options: EngineOptions, *, workers: int) -> ClientPool:
    plan, spec = settings.local_plan(), read_spec(start)
    shared = sum(tensor.size for tensor in plan.strategy.travelling(spec))
    rows = MappedRows(options.root, len(cohort.clients), shared, np.dtype(np.float32))

    def make_pool(mine: range) -> StoredPool:
        return StoredPool(
            cohort,
            [cohort.clients[place] for place in mine],
            start=start,
            plan=plan,
            device=settings.device,
            rows=rows,
            places=mine,
            folder=options.root,
            memory_bytes=options.memory_bytes // workers,
        )

    if workers == 1:
        return make_pool(range(len(cohort.clients)))
    return ForkedPool(list(rows.array), make_pool, workers=workers)
