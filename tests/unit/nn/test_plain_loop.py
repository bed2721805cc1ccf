"""The fast step against the plain loop a researcher would write: stock layers in stock order, torch.optim.SGD.

Both start from the same weights and see the same batches; they round in another order, and nothing else may differ.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedap_core.models import ModelRequest, build_model
from fedap_core.nn.heads import find_head
from fedap_core.nn.samples import Samples, batch_bounds
from fedap_core.nn.state import FlatModel, describe_tensors
from fedap_core.nn.training import Randomness, train
from fedap_core.parts import Part
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from protocol.plan import Sgd
from scripts.bench.plain_models import PLAIN_MODELS

CLASSES = 5
SEEDS = Randomness(order=3, noise=4)


def samples_of(model: str) -> Samples:
    """A few steps' worth: AlexNet has 57 million weights to move in each."""
    count, shape = {
        "lenet5": (50, (1, 28, 28)), "har-cnn": (50, (6, 200)), "alexnet": (17, (1, 64, 64)), "mlp": (50, (1, 12)),
        "cnn3d": (20, (1, 16, 16, 16)),
    }[model]  # fmt: skip
    generator = torch.Generator().manual_seed(8)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    if model in ("har-cnn", "mlp"):
        return Samples(x=torch.randn(count, *shape, generator=generator), y=y, preprocessing=Preprocessing())
    x = torch.randint(0, 256, (count, *shape), generator=generator, dtype=torch.uint8)
    return Samples(x=x, y=y, preprocessing=IMAGE_8BIT)


def trained(model: str, samples: Samples, settings: Sgd) -> nn.Module:
    shape = tuple(samples.x.shape[1:])
    module = build_model(model, ModelRequest(input_shape=shape, classes=CLASSES), seed=2)
    flat = FlatModel(module, describe_tensors(module, [find_head(module, shape)]), frozenset({Part.BATCH_NORM}))
    train(flat, samples, settings=settings, randomness=SEEDS)
    return module


def trained_by_the_book(model: str, samples: Samples, settings: Sgd) -> nn.Module:
    shape = tuple(samples.x.shape[1:])
    start = build_model(model, ModelRequest(input_shape=shape, classes=CLASSES), seed=2)
    made_of_stock_layers = model not in PLAIN_MODELS
    plain = copy.deepcopy(start) if made_of_stock_layers else PLAIN_MODELS[model](shape[0], CLASSES).train()
    with torch.no_grad():
        for mine, given in zip(plain.parameters(), start.parameters(), strict=True):
            mine.copy_(given)
    optimiser = torch.optim.SGD(
        plain.parameters(), lr=settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    x = samples.prepare(samples.x)
    generator = torch.Generator().manual_seed(SEEDS.order)
    for _ in range(settings.epochs):
        order = torch.randperm(len(samples), generator=generator)
        for begin, end in batch_bounds(len(samples), settings.batch_size, settings.batches):
            optimiser.zero_grad()
            loss = F.cross_entropy(plain(x[order[begin:end]]), samples.y[order[begin:end]])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return plain


def largest_difference(one: nn.Module, other: nn.Module, part: str) -> float:
    """Between all parameters, or all buffers, of two modules that hold them in the same order."""
    pairs = zip(*([*getattr(module, part)()] for module in (one, other)), strict=True)
    return max(float((mine.detach() - theirs.detach()).abs().max()) for mine, theirs in pairs)


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 1e-3)])
@pytest.mark.parametrize(
    "model", ["lenet5", "har-cnn", "mlp", "cnn3d", pytest.param("alexnet", marks=pytest.mark.slow)]
)
def test_some_steps_end_where_the_plain_loop_ends(model: str, momentum: float, weight_decay: float) -> None:
    """Weights of size 0.1, each rounded to 6e-9 in every one of some ten steps, and sums of thousands: below 1e-4.

    The last claim keeps the first honest: the weights have moved by far more than they may differ.
    """
    settings = Sgd(momentum=momentum, weight_decay=weight_decay, batch_size=8)
    samples = samples_of(model)
    ours, plain = trained(model, samples, settings), trained_by_the_book(model, samples, settings)
    assert largest_difference(ours, plain, "parameters") < 1e-4
    assert largest_difference(ours, plain, "buffers") < 1e-3
    start = build_model(model, ModelRequest(input_shape=tuple(samples.x.shape[1:]), classes=CLASSES), seed=2)
    assert largest_difference(ours, start, "parameters") > 1e-3


@pytest.mark.parametrize("model", ["lenet5", "har-cnn", "mlp", "cnn3d"])
def test_the_same_steps_give_the_same_bits(model: str) -> None:
    settings, samples = Sgd(momentum=0.9, weight_decay=1e-3, epochs=2), samples_of(model)
    first, second = (list(trained(model, samples, settings).state_dict().values()) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
