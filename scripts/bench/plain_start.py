"""A2 as a separate program: from the command to the first training step, then rounds until it is ended.

`python -m scripts.bench.plain_start CLIENTS SAMPLES` prints `step` and the time when a process has made its first step,
and `round` whenever it has finished one. Imports PyTorch and nothing of this project's machinery; it forks, which is
the fastest way to start.
"""

from __future__ import annotations

import os
import sys
import time

import torch
from torch.nn import functional as F

from scripts.bench.plain_models import plain_lenet5

PROCESSES = 2
BATCH = 32
CLASSES = 11


def main() -> None:
    clients, samples = int(sys.argv[1]), int(sys.argv[2])
    for number in range(1, PROCESSES):
        if os.fork() == 0:
            train(range(number, clients, PROCESSES), samples)
    train(range(0, clients, PROCESSES), samples)


def train(clients: range, samples: int) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(clients.start)
    trainees = []
    for _ in clients:
        x = torch.rand(samples, 1, 28, 28, generator=generator)
        y = torch.randint(CLASSES, (samples,), generator=generator)
        model = plain_lenet5(1, CLASSES)
        trainees.append((model, torch.optim.SGD(model.parameters(), lr=0.01), x, y))
    stepped = False
    while True:
        for model, optimiser, x, y in trainees:
            order = torch.randperm(samples, generator=generator)
            for start in range(0, samples, BATCH):
                chosen = order[start : start + BATCH]
                optimiser.zero_grad()
                F.cross_entropy(model(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                if not stepped:
                    print(f"step {time.time()}", flush=True)
                    stepped = True
        print("round", flush=True)


if __name__ == "__main__":
    main()
