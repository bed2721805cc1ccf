"""Holds the clients of a run: `ClientPool` is the interface for engines, `InlinePool` keeps them in this process.

A pool answers in the cohort's order and exposes every client's shared weights as a live row, so that mixing writes
directly into the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Measure
from participant.record.model_file import module_of, read_model, write_model
from participant.training.local import LocalClient, LocalPlan, LocalReport, use_threads
from scripts.run.cohort import Client, Cohort, model_file_name
from scripts.run.kept_files import read_kept, write_kept

Chosen = Sequence[int] | None
"""Places of some clients in the cohort's order, ascending; None: all of them."""


class ClientPool(Protocol):
    """All clients of one run."""

    @property
    def rows(self) -> Sequence[Float32Array]:
        """Every client's shared weights; writing to a row changes the model."""

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        """Measure all clients' statistics under the anchor in that model file."""

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        """Train the chosen clients for one round; None: all clients."""

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        """Deliver their rows to the chosen clients for that round. entering: those of them that have not trained yet,
        while others have."""

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        """Evaluate the chosen clients' models on their own split: as delivered for that round, or as they would be
        handed over."""

    def save(self, folder: Path, round_no: int) -> None:
        """Write all personalised models after that round, and what the algorithm keeps beside them."""

    def load(self, folder: Path) -> None:
        """Load all models from such a folder."""

    def close(self) -> None:
        """Release whatever the pool started."""


def make_clients(
    cohort: Cohort,
    chosen: Sequence[Client],
    *,
    start: Path,
    plan: LocalPlan,
    device: str,
    buffers: Sequence[Tensor | None],
) -> list[LocalClient]:
    """Build the chosen clients in this process."""
    use_threads(plan.compute.threads)
    spec, state, _ = read_model(start)
    place = resolve_device(device)
    return [
        LocalClient(
            client.name,
            splits=cohort.samples(client, place),
            module=module_of(spec, state).to(place),
            spec=spec,
            plan=plan,
            buffer=buffer,
        )
        for client, buffer in zip(chosen, buffers, strict=True)
    ]


def resolve_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is CUDA if available."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InvalidInput("device", "cuda", "a machine with a CUDA device", "Use device = cpu or auto.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def write_client(folder: Path, client: LocalClient, spec: ModelSpec, round_no: int) -> None:
    """Write one client's model after a round, and what its algorithm keeps beside it."""
    personal, state = client.handed_over(round_no + 1), client.state()
    write_model(folder / model_file_name(client.name), spec, personal, {"round": str(round_no)})
    if client.keeps_more_than_its_model:
        write_kept(folder, client.name, spec, state, client.kept())


class InlinePool:
    """Clients trained one after the other in this process."""

    def __init__(self, clients: Sequence[LocalClient], spec: ModelSpec) -> None:
        self._clients = clients
        self._spec = spec
        self._start = clients[0].shared.copy() if clients else None

    def _of(self, chosen: Chosen) -> Sequence[LocalClient]:
        return self._clients if chosen is None else [self._clients[place] for place in chosen]

    @property
    def rows(self) -> Sequence[Float32Array]:
        return [client.shared for client in self._clients]

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        state = read_model(anchor)[1]
        return [client.measure(state, what) for client in self._clients]

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        return [client.train(round_no, measure=what) for client in self._of(chosen)]

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        new = {id(self._clients[place]) for place in entering}
        for client in self._of(chosen):
            client.deliver(round_no, untrained=self._start if id(client) in new else None)

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        return [client.evaluate(split, model, round_no=round_no) for client in self._of(chosen)]

    def save(self, folder: Path, round_no: int) -> None:
        for client in self._clients:
            write_client(folder, client, self._spec, round_no)

    def load(self, folder: Path) -> None:
        for client in self._clients:
            client.load(*read_kept(folder, client.name))

    def close(self) -> None:
        self._clients = ()
