"""The measure of all things: a plain PyTorch loop as a researcher writes it by hand.

Stock layers in stock order, torch.optim.SGD, float tensors sliced by a permutation; no mixing, no messages, no record.
Uses nothing of this project's training, so that a slip there cannot slow down what it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.bench.crew import Body, loop_of
from scripts.bench.job import BATCH, LEARNING_RATE, Job
from scripts.experiments.cohort import Client


def plain_lenet5(channels: int, classes: int) -> nn.Module:
    """For images of 28 x 28."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
    )


def plain_har_cnn(channels: int, classes: int) -> nn.Module:
    """For windows of 200 steps."""
    return nn.Sequential(
        nn.Unflatten(2, (1, 200)),
        *(nn.Conv2d(channels, 16, (1, 9)), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((1, 2))),
        *(nn.Conv2d(16, 32, (1, 9)), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((1, 2))),
        *(nn.Flatten(), nn.Linear(32 * 44, 64), nn.ReLU(), nn.Linear(64, classes)),
    )


def plain_alexnet(channels: int, classes: int) -> nn.Module:
    """For images of 64 x 64 and larger."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 64, 11, stride=4, padding=2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.BatchNorm2d(192), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.BatchNorm2d(384), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.BatchNorm2d(256), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.BatchNorm2d(256), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Linear(9216, 4096), nn.BatchNorm1d(4096), nn.ReLU()),
        *(nn.Linear(4096, 4096), nn.BatchNorm1d(4096), nn.ReLU(), nn.Linear(4096, classes)),
    )


PLAIN_MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "lenet5": plain_lenet5,
    "har-cnn": plain_har_cnn,
    "alexnet": plain_alexnet,
}


def plain_loop(job: Job, clients: Sequence[Client], make_model: Callable[[], nn.Module]) -> Callable[[], None]:
    """One epoch of every given client, each with a model and an optimiser of its own; one thread."""
    torch.set_num_threads(1)
    data = job.cohort.data
    scale, offset = data.preprocessing.scale, data.preprocessing.offset
    trainees: list[tuple[nn.Module, torch.optim.SGD, Tensor, Tensor]] = []
    for client in clients:
        chosen = client.splits["train"]
        x = torch.from_numpy(data.x[chosen]).float() * scale + offset
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


def plain_bodies(job: Job, processes: int) -> list[Body]:
    """The plain loop over all clients of a job, dealt out to so many processes."""
    data, model = job.cohort.data, PLAIN_MODELS[job.settings.model]

    def make_model() -> nn.Module:
        return model(data.input_shape[0], len(data.classes))

    def body(number: int) -> Body:
        return loop_of(lambda: plain_loop(job, job.cohort.clients[number::processes], make_model))

    return [body(number) for number in range(processes)]
