"""The algorithms as a textbook writes them: one model per client, torch.optim.SGD, dictionaries, loops.

Shares no code with the system except the tiny network, the data and the order of the samples. BN and head are named by
hand, because the network is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.arrays import FloatArray
from tests.parity import federation as given
from tests.parity.network import SmoothNet

Keep = Callable[[str], bool]
Moments = list[tuple[FloatArray, FloatArray, FloatArray]]
"""(mean, variance, covariance) per layer."""


def nothing(key: str) -> bool:
    return False


def everything(key: str) -> bool:
    return True


def batch_norm(key: str) -> bool:
    return key.startswith(("norm.", "scale."))


def head(key: str) -> bool:
    return key.startswith("fc.")


class Book:
    """The clients of the tiny federation, each with its own model and data."""

    def __init__(self) -> None:
        cohort = given.cohort()
        self.models = [network(given.SEED) for _ in cohort.clients]
        self.train_data, self.test_data = (
            [
                (
                    torch.from_numpy(cohort.data.x[client.splits[split]]) * 0.5 + 0.25,
                    torch.from_numpy(cohort.data.y[client.splits[split]]),
                )
                for client in cohort.clients
            ]
            for split in ("train", "test")
        )
        self.round_no = 0

    def train(self, mu: float = 0.0) -> None:
        """One round of local training by everyone."""
        for number, model in enumerate(self.models):
            self.fit(number, model, mu=mu)
        self.round_no += 1

    def fit(
        self,
        number: int,
        model: SmoothNet,
        *,
        mu: float = 0.0,
        towards: list[Tensor] | None = None,
        trains: Keep = lambda _key: True,
        which: str = "",
        epochs: int = given.EPOCHS,
        to_mean: bool = False,
    ) -> float:
        """Train one client's model and return its mean loss over the last epoch, without the pull. towards: what mu
        pulls to, instead of the values it begins with. trains: by name. which: the training among several of a round,
        as the seed of its order is named. to_mean: ends at the mean of what the steps led to."""
        x, y = self.train_data[number]
        trained = [parameter for key, parameter in model.named_parameters() if trains(key)]
        optimiser = torch.optim.SGD(
            trained, lr=given.LEARNING_RATE, momentum=given.MOMENTUM, weight_decay=given.WEIGHT_DECAY
        )
        received = towards or [parameter.detach().clone() for parameter in model.parameters()]
        generator = torch.Generator().manual_seed(given.order_seed(given.NAMES[number], self.round_no, which))
        model.train()
        visited: list[list[Tensor]] = []
        losses: list[float] = []
        for _ in range(epochs):
            losses = []
            for batch in batches(torch.randperm(len(y), generator=generator)):
                optimiser.zero_grad()
                loss = F.cross_entropy(model(x[batch]), y[batch])
                losses += [float(loss.detach())] * len(batch)
                for parameter, start in zip(model.parameters(), received, strict=True):
                    loss = loss + mu / 2 * torch.norm(parameter - start) ** 2 if mu else loss
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                visited.append([parameter.detach().clone() for parameter in model.parameters()])
        if to_mean:
            for parameter, places in zip(model.parameters(), zip(*visited, strict=True), strict=True):
                parameter.data = torch.stack(places).mean(0)
        return sum(losses) / max(len(losses), 1)

    def average(self, weights: FloatArray, keep: Keep) -> None:
        """Every client gets its weighted sum of all clients' tensors, except for those it keeps; counters it keeps."""
        states = [{key: value.clone() for key, value in model.state_dict().items()} for model in self.models]
        for model, row in zip(self.models, weights, strict=True):
            mixed = model.state_dict()
            for key, value in mixed.items():
                if value.is_floating_point() and not keep(key):
                    mixed[key] = sum(float(w) * state[key] for w, state in zip(row, states, strict=True))
            model.load_state_dict(mixed)

    def by_counts(self) -> FloatArray:
        counts = np.array([len(y) for _, y in self.train_data], dtype=np.float64)
        return np.stack([counts / counts.sum()] * len(counts))

    def scores(self) -> list[tuple[float, float]]:
        """(accuracy, loss) of every client's model on its test data."""
        found = []
        for model, (x, y) in zip(self.models, self.test_data, strict=True):
            model.eval()
            with torch.no_grad():
                logits = model(x)
            found.append((float((logits.argmax(1) == y).double().mean()), float(F.cross_entropy(logits, y))))
        return found


def batches(order: Tensor) -> list[Tensor]:
    """Batches of about eight, of nearly equal size."""
    return list(torch.tensor_split(order, max(1, round(len(order) / given.BATCH))))


def network(seed: int) -> SmoothNet:
    model = SmoothNet()
    model.load_state_dict(given.weights_of_seed(seed))
    return model


def layer_inputs(model: SmoothNet, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What enters the two BN layers and the head, as (values, channels)."""
    model.eval()
    with torch.no_grad():
        first = model.conv(x)
        second = model.hidden(F.avg_pool2d(torch.tanh(model.norm(first)), 2).flatten(1))
        third = torch.tanh(model.scale(second))
    return first.permute(0, 2, 3, 1).reshape(-1, 3), second, third


def moments_of(values: Tensor) -> tuple[FloatArray, FloatArray, FloatArray]:
    z = values.double().numpy()
    return z.mean(axis=0), z.var(axis=0), np.cov(z.T, bias=True)


def root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def wasserstein(one: Moments, other: Moments, *, full: bool = False) -> float:
    """Eq. 6: the sum over the layers of the square roots of eq. 5, or of eq. 4 as it is printed."""
    total = 0.0
    for (mean_a, var_a, cov_a), (mean_b, var_b, cov_b) in zip(one, other, strict=True):
        means = ((mean_a - mean_b) ** 2).sum()
        if full:
            spread = np.trace(cov_a + cov_b - 2 * root(root(cov_a) @ cov_b @ root(cov_a)))
        else:
            spread = ((np.sqrt(var_a) - np.sqrt(var_b)) ** 2).sum()
        total += float(np.sqrt(means + spread))
    return total


def by_distances(moments: list[Moments], self_weight: float, *, full: bool = False) -> FloatArray:
    """Eq. 7-8: one's own model with self_weight, the others by the inverse of their distance."""
    n = len(moments)
    weights = np.zeros((n, n))
    for i in range(n):
        inverse = {j: 1 / wasserstein(moments[i], moments[j], full=full) for j in range(n) if j != i}
        for j, value in inverse.items():
            weights[i, j] = (1 - self_weight) * value / sum(inverse.values())
        weights[i, i] = self_weight
    return weights
