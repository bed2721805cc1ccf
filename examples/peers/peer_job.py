"""The job that every simulator runs: 10,000 clients with 32 images each, LeNet-5, one batch, 500 clients per round.

Imports PyTorch and, from this project, only the plain LeNet-5 of the benchmark. Samples are in a memory map, so that
every process of a simulator reads the same pages.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from scripts.bench.plain_models import plain_lenet5

CLIENTS = int(os.environ.get("PEER_CLIENTS", "10000"))
CHOSEN = CLIENTS // 20
ROUNDS = int(os.environ.get("PEER_ROUNDS", "6"))
SAMPLES = 32
CLASSES = 11
LEARNING_RATE = 0.01
FOLDER = Path(os.environ.get("PEER_FOLDER", "."))
TOLD = Path(os.environ.get("PEER_TOLD", "rounds.txt"))


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return plain_lenet5(1, CLASSES)


def make_samples() -> None:
    """Write the images and labels of all clients."""
    rng = np.random.default_rng(0)
    np.save(FOLDER / "x.npy", rng.integers(0, 256, (CLIENTS, SAMPLES, 1, 28, 28), dtype=np.uint8))
    np.save(FOLDER / "y.npy", rng.integers(0, CLASSES, (CLIENTS, SAMPLES)))


@cache
def _samples() -> tuple[np.ndarray, np.ndarray]:
    return np.load(FOLDER / "x.npy", mmap_mode="r"), np.load(FOLDER / "y.npy", mmap_mode="r")


def samples_of(client: int) -> tuple[Tensor, Tensor]:
    """Return one client's images, scaled to 0 to 1, and their classes."""
    x, y = _samples()
    return torch.from_numpy(np.array(x[client])).float() / 255.0, torch.from_numpy(np.array(y[client]))


def tell_round(number: int) -> None:
    """Record the end of a round as a line, which `compare.py` counts."""
    if number > 0 or "pfl" in TOLD.name:  # Flower also reports round 0, before any training
        with TOLD.open("a", encoding="utf-8") as file:
            file.write(f"round {number}\n")
