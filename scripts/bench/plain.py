"""The reference of all measurements: a plain PyTorch loop as a researcher would write it.

Stock layers in stock order, torch.optim.SGD, float tensors sliced by a permutation; no mixing, no messages, no record.
Uses nothing of this project's training, so that a slowdown there cannot affect the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedap_core.nn.samples import apply
from scripts.bench.job import BATCH, LEARNING_RATE, BenchJob
from scripts.bench.plain_models import PLAIN_MODELS
from scripts.bench.workers import Body, loop_of
from scripts.run.cohort import Client


def plain_loop(job: BenchJob, clients: Sequence[Client], make_model: Callable[[], nn.Module]) -> Callable[[], None]:
    """Return a function that trains one epoch of every client, each with its own model and optimiser; one thread."""
    torch.set_num_threads(1)
    data = job.cohort.data
    trainees: list[tuple[nn.Module, torch.optim.SGD, Tensor, Tensor]] = []
    for client in clients:
        chosen = client.splits["train"]
        x = apply(data.preprocessing, torch.from_numpy(data.x[chosen]).to(torch.float32, copy=True))
        model = make_model().train()
        optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        trainees.append((model, optimiser, x, torch.from_numpy(data.y[chosen])))
    generator = torch.Generator().manual_seed(0)

    def one_round() -> None:
        for model, optimiser, x, y in trainees:
            order = torch.randperm(len(y), generator=generator)
            for start in range(0, len(y), BATCH):
                chosen = order[start : start + BATCH]
                optimiser.zero_grad()
                F.cross_entropy(model(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()

    return one_round


def plain_bodies(job: BenchJob, processes: int) -> list[Body]:
    """Return the plain loop over all clients of a job, distributed over so many processes."""
    data, model = job.cohort.data, PLAIN_MODELS[job.settings.model]

    def make_model() -> nn.Module:
        return model(data.input_shape[0], len(data.classes))

    def body(number: int) -> Body:
        return loop_of(lambda: plain_loop(job, job.cohort.clients[number::processes], make_model))

    return [body(number) for number in range(processes)]
