"""Holds clients one at a time in memory; models and local states of all are in memory-mapped files.

The same `LocalClient` does the work as with all clients in memory, so the bits are the same. Decides where a client's
state is stored between two pieces of work, and when a client is instantiated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, State, copy_into, flat_size, model_entries
from fedap_core.strategies import Measure
from participant.record.model_file import module_of, read_model
from participant.training.local import LocalClient, LocalPlan, LocalReport, use_threads
from scripts.engines.pool import Chosen, resolve_device, write_client
from scripts.engines.tables import MappedRows
from scripts.run.cohort import Client, Cohort
from scripts.run.kept_files import read_kept

Layout = tuple[tuple[str, torch.dtype, torch.Size], ...]

MODULE_BYTES = 300_000
"""Approximate size of one client's Python objects beside tensors and samples."""


def living_bytes(cohort: Cohort, spec: ModelSpec, plan: LocalPlan) -> int:
    """Return the approximate size of all clients in memory."""
    strategy = plan.strategy
    models = 1 + len(strategy.kept_models) + int(strategy.hands_over_another) + strategy.kept_vectors
    weights = models * 4 * flat_size((*spec.tensors, *strategy.beside(spec)), strategy.home)
    return len(cohort.clients) * (MODULE_BYTES + weights) + cohort.data.x.nbytes


class StoredPool:
    """A `ClientPool`. rows: (clients, shared values), in a memory map; live, as in any pool."""

    def __init__(
        self,
        cohort: Cohort,
        clients: Sequence[Client],
        *,
        start: Path,
        plan: LocalPlan,
        device: str,
        rows: MappedRows,
        places: Sequence[int] | None = None,
        folder: Path,
        memory_bytes: int,
    ) -> None:
        """places: where these clients' rows are in the table; memory_bytes: if tables are larger, their pages are
        released after every piece of work."""
        use_threads(plan.compute.threads)
        self._cohort, self._clients, self._plan = cohort, clients, plan
        self._device = resolve_device(device)
        self._spec, self._start, _ = read_model(start)
        self._module = module_of(self._spec, self._start).to(self._device)
        beside = plan.strategy.beside(self._spec)
        self._flat = FlatModel(self._module, self._spec.tensors, plan.strategy.home, beside=beside)
        shared = {tensor.name for tensor in plan.strategy.travelling(self._spec)}
        entries = model_entries(self._module)
        self._at_home = {
            _MODEL + one.name: entries[one.name].detach() for one in self._spec.tensors if one.name not in shared
        }
        self._table, self._homes = rows, _LocalStates(folder, len(clients))
        self._rows: list[Float32Array] = [rows.array[place] for place in places or range(len(clients))]
        self._memory_bytes = memory_bytes
        self._entering: dict[int, int] = {}
        """Clients that received a model before their first round, and that round: the model is delivered to them when
        they are next instantiated."""
        self._first_row = self._instantiate(clients[0]).shared.copy() if clients else np.empty(0, dtype=np.float32)
        for row in self._rows:
            row[...] = self._first_row

    @property
    def rows(self) -> Sequence[Float32Array]:
        return self._rows

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        state = read_model(anchor)[1]
        return [client.measure(state, what) for _, client in self._alive(None, changes=False)]

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        return [client.train(round_no, measure=what) for _, client in self._alive(chosen)]

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        if not self._plan.strategy.acts_on_delivery:
            self._entering |= dict.fromkeys(entering, round_no)
            return
        new = set(entering)
        for place, client in self._alive(chosen):
            client.deliver(round_no, untrained=self._first_row if place in new else None)

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        alive = self._alive(chosen, changes=False)
        return [client.evaluate(split, model, round_no=round_no) for _, client in alive]

    def save(self, folder: Path, round_no: int) -> None:
        for _, client in self._alive(None, changes=False):
            write_client(folder, client, self._spec, round_no)

    def load(self, folder: Path) -> None:
        for place, client in self._alive(None):
            client.load(*read_kept(folder, self._clients[place].name))

    def close(self) -> None:
        self._clients, self._rows = (), []

    def _alive(self, chosen: Chosen, *, changes: bool = True) -> Iterator[tuple[int, LocalClient]]:
        """Yield one client after the other; its state is stored when the next one is requested."""
        for place in range(len(self._clients)) if chosen is None else chosen:
            client = self._instantiate(self._clients[place], self._homes.get(place))
            client.shared[...] = self._rows[place]
            entered = self._entering.pop(place, None)
            if entered is not None:
                client.deliver(entered, untrained=self._first_row)
            yield place, client
            if changes:
                self._rows[place][...] = client.shared
            if changes or entered is not None:
                self._homes.put(place, self._at_home | client.kept())
        share = self._table.size_bytes * len(self._clients) // len(self._table.array)  # this worker's share of the rows
        if share + self._homes.size_bytes > self._memory_bytes:
            self._table.release()
            self._homes.release()

    def _instantiate(self, client: Client, home: State | None = None) -> LocalClient:
        """Instantiate a client from its stored state, without its shared weights. home None: before its first round."""
        if home is None:
            self._flat.flat.zero_()
            copy_into(self._module, self._start)
        made = LocalClient(
            client.name,
            splits=_Splits(self._cohort, client, self._device),
            module=self._module,
            spec=self._spec,
            plan=self._plan,
            flat=self._flat,
        )
        if home is not None:
            for name, tensor in self._at_home.items():
                tensor.copy_(home.pop(name))
            if home:
                made.load({}, home)
        return made


class _Splits(Mapping[str, Samples]):
    """One client's samples, gathered on first access: most work needs only one split."""

    def __init__(self, cohort: Cohort, client: Client, device: torch.device) -> None:
        self._cohort, self._client, self._device = cohort, client, device
        self._gathered: dict[str, Samples] = {}

    def __getitem__(self, name: str) -> Samples:
        if name not in self._gathered:
            self._gathered[name] = self._cohort.gather(self._client.splits[name], self._device)
        return self._gathered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._client.splits)

    def __len__(self) -> int:
        return len(self._client.splits)


_MODEL = "home/"
"""Prefix of the names of tensors of the model itself; others are kept by the algorithm."""


class _LocalStates:
    """The named tensors that every client has beside its shared weights. Slots grow with the largest state."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._table = MappedRows(folder, count, 0, np.dtype(np.uint8))
        self._layouts: list[Layout] = []
        self._which = np.full(count, -1, dtype=np.int64)

    @property
    def size_bytes(self) -> int:
        return self._table.size_bytes

    def release(self) -> None:
        self._table.release()

    def put(self, place: int, state: State) -> None:
        layout: Layout = tuple((name, tensor.dtype, tensor.shape) for name, tensor in state.items())
        if layout not in self._layouts:
            self._layouts.append(layout)
        pieces = [tensor.detach().cpu().contiguous().reshape(-1).numpy().view(np.uint8) for tensor in state.values()]
        size = sum(_padded(piece.size) for piece in pieces)
        if size > self._table.array.shape[1]:
            self._grow(size)
        at, slot = 0, self._table.array[place]
        for piece in pieces:
            slot[at : at + piece.size] = piece
            at += _padded(piece.size)
        self._which[place] = self._layouts.index(layout)

    def get(self, place: int) -> State | None:
        """Return views, to be copied immediately; None if nothing was put."""
        if self._which[place] < 0:
            return None
        found: State = {}
        at, slot = 0, self._table.array[place]
        for name, dtype, shape in self._layouts[self._which[place]]:
            size = shape.numel() * dtype.itemsize
            found[name] = torch.from_numpy(slot[at : at + size]).view(dtype).reshape(shape)
            at += _padded(size)
        return found

    def _grow(self, width: int) -> None:
        wider, before = MappedRows(self._folder, len(self._which), width, np.dtype(np.uint8)), self._table.array
        if before.shape[1]:
            wider.array[:, : before.shape[1]] = before
        self._table = wider


def _padded(size: int) -> int:
    return -(-size // 64) * 64
