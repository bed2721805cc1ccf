"""Local training: the hand-written step against torch.optim.SGD, and what a round may and may not touch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from fedap_core.nn.samples import Samples, batch_bounds
from fedap_core.nn.state import FlatModel, describe_tensors
from fedap_core.nn.training import STRETCH, Randomness, train
from fedap_core.parts import Part
from fedap_core.preprocessing import Preprocessing
from fedap_core.workspace import CROSS_ENTROPY, Objective
from protocol.errors import InvalidField
from protocol.plan import Sgd
from tests.support.models import TINY_SHAPE, ZOO, TinyNet, draw, draw_labels

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=NO_CUDA)]
SEEDS = Randomness(order=11, noise=12)

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Float32 after 27 steps, each of which rounds in another order than torch.optim.SGD does."""


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=RELATIVE, atol=ABSOLUTE)


def samples_of(count: int, device: str = "cpu") -> Samples:
    x, y = draw(count, *TINY_SHAPE).to(device), draw_labels(count).to(device)
    return Samples(x=x, y=y, preprocessing=Preprocessing())


def flat_tiny(model: nn.Module | None = None, device: str = "cpu") -> FlatModel:
    module = (model or ZOO["tiny"].make()).to(device)
    return FlatModel(module, describe_tensors(module, ["fc"]), frozenset({Part.BATCH_NORM}))


def batches_of(samples: Samples, settings: Sgd, order_seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of a textbook loop: one permutation per epoch from one generator."""
    generator = torch.Generator().manual_seed(order_seed)
    for _ in range(settings.epochs):
        order = torch.randperm(len(samples), generator=generator)
        for start, stop in batch_bounds(len(samples), settings.batch_size, settings.batches):
            chosen = order[start:stop].to(samples.y.device)
            yield samples.x[chosen], samples.y[chosen]


def train_by_the_book(model: nn.Module, samples: Samples, settings: Sgd, mu: float = 0.0) -> None:
    optimiser = torch.optim.SGD(
        model.parameters(), lr=settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    received = [parameter.detach().clone() for parameter in model.parameters()]
    model.train()
    for inputs, targets in batches_of(samples, settings, SEEDS.order):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        if mu > 0.0:
            distance = sum(((now - then) ** 2).sum() for now, then in zip(model.parameters(), received, strict=True))
            loss = loss + mu / 2 * distance
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
def test_training_is_torchs_sgd(momentum: float, weight_decay: float, mu: float, device: str) -> None:
    """Three epochs of 37 samples in batches of 4 (the last of 5): 27 steps, with and without FedProx's term."""
    settings = Sgd(learning_rate=0.05, momentum=momentum, weight_decay=weight_decay, batch_size=4, epochs=3)
    samples, flat, plain = samples_of(37, device), flat_tiny(device=device), ZOO["tiny"].make().to(device)
    objective = Objective(pull=mu)
    metrics = train(flat, samples, objective=objective, settings=settings, randomness=SEEDS)
    train_by_the_book(plain, samples, settings, mu)
    assert (metrics.steps, metrics.samples) == (27, 111)
    for entry, expected in plain.state_dict().items():
        assert_near(flat.module.state_dict()[entry], expected)
    moved = plain.state_dict()["fc.weight"].cpu() - ZOO["tiny"].make().state_dict()["fc.weight"]
    assert float(moved.abs().max()) > 100 * ABSOLUTE


def test_a_cosine_schedule_is_torchs() -> None:
    """CosineAnnealingLR over 5 rounds: factors 1, 0.905, 0.655, 0.345, 0.095 of 0.05; one step each."""
    samples, flat, plain = samples_of(8), flat_tiny(), ZOO["tiny"].make()
    settings = Sgd(learning_rate=0.05, lr_schedule="cosine", lr_floor=0.1, batch_size=8)
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=5, eta_min=0.005)
    plain.train()
    for round_no in range(5):
        train(flat, samples, objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS, progress=round_no / 5)
        for inputs, targets in batches_of(samples, settings, SEEDS.order):
            optimiser.zero_grad()
            nn.functional.cross_entropy(plain(inputs), targets).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
    for entry, expected in plain.state_dict().items():
        assert_near(flat.module.state_dict()[entry], expected)


def test_a_model_of_several_stretches_is_trained_by_torchs_sgd_too() -> None:
    """700 x 300 weights alone are more than one stretch of 131,072."""

    def model() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(7)
            features = math.prod(TINY_SHAPE)
            return nn.Sequential(
                nn.Flatten(), nn.Linear(features, 700), nn.BatchNorm1d(700), nn.Linear(700, 300), nn.Linear(300, 3)
            )

    settings = Sgd(learning_rate=0.01, momentum=0.9, weight_decay=0.01, batch_size=8)
    module, plain, samples = model(), model(), samples_of(24)
    flat = FlatModel(module, describe_tensors(module, ["4"]), frozenset())
    assert len(flat.trainable) > STRETCH
    objective = Objective(pull=0.5)
    train(flat, samples, objective=objective, settings=settings, randomness=SEEDS)
    train_by_the_book(plain, samples, settings, mu=0.5)
    for entry, expected in plain.state_dict().items():
        assert_near(module.state_dict()[entry], expected)


def test_the_proximal_term_holds_weights_near_those_received() -> None:
    moved = []
    for mu in (0.0, 1.0):
        flat = flat_tiny()
        before = flat.trainable.clone()
        settings = Sgd(learning_rate=0.05, batch_size=8, epochs=5)
        objective = Objective(pull=mu)
        train(flat, samples_of(40), objective=objective, settings=settings, randomness=SEEDS)
        moved.append(float((flat.trainable - before).norm()))
    assert moved[1] < 0.9 * moved[0]


def test_velocity_kept_by_the_caller_continues_a_round() -> None:
    """Two rounds of one epoch with a kept velocity are two epochs of one optimiser, given the same batches."""
    settings = Sgd(learning_rate=0.05, momentum=0.9, batch_size=8)
    flat, plain = flat_tiny(), ZOO["tiny"].make()
    velocity = torch.zeros_like(flat.trainable)
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    for order in (1, 2):
        seeds = Randomness(order=order, noise=0)
        train(flat, samples_of(24), objective=CROSS_ENTROPY, settings=settings, randomness=seeds, velocity=velocity)
        for inputs, targets in batches_of(samples_of(24), settings, order):
            optimiser.zero_grad()
            nn.functional.cross_entropy(plain(inputs), targets).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    assert_near(flat.module.get_parameter("hidden.weight"), plain.get_parameter("hidden.weight"))
    assert float(velocity.abs().max()) > 0.0


def test_frozen_parameters_do_not_move_even_with_weight_decay() -> None:
    model = ZOO["tiny"].make()
    model.get_parameter("conv.weight").requires_grad_(False)
    flat = flat_tiny(model)
    before = model.get_parameter("conv.weight").clone()
    settings = Sgd(learning_rate=0.1, momentum=0.5, weight_decay=0.1)
    train(flat, samples_of(20), objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS)
    assert torch.equal(model.get_parameter("conv.weight"), before)
    assert not torch.equal(model.get_parameter("fc.weight"), ZOO["tiny"].make().get_parameter("fc.weight"))


def test_a_last_batch_of_one_is_merged_so_that_batch_norm_can_train() -> None:
    """9 samples in batches of 4: steps of 4 and 5, not 4, 4 and 1."""
    flat = flat_tiny()
    settings = Sgd(batch_size=4)
    metrics = train(flat, samples_of(9), objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS)
    assert (metrics.steps, metrics.samples) == (2, 9)


@pytest.mark.parametrize(
    ("allowed", "steps", "samples"), [(1, 1, 4), (2, 2, 8), (3, 3, 12), (4, 4, 16), (6, 6, 24), (99, 9, 36)]
)
def test_training_stops_after_the_batch_it_is_told_to(allowed: int, steps: int, samples: int) -> None:
    """12 samples in batches of 4, three epochs: 9 steps if nobody stops it; the end of an epoch is no exception."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= allowed

    settings = Sgd(batch_size=4, epochs=3)
    metrics = train(
        flat_tiny(), samples_of(12), objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS,
        should_stop=should_stop,
    )  # fmt: skip
    assert (metrics.steps, metrics.samples) == (steps, samples)


def test_what_was_learnt_until_the_stop_stands() -> None:
    stopped, plain = flat_tiny(), ZOO["tiny"].make()
    settings = Sgd(learning_rate=0.05, batch_size=4)
    train(
        stopped, samples_of(12), objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS,
        should_stop=lambda: True,
    )  # fmt: skip
    inputs, targets = next(batches_of(samples_of(12), settings, SEEDS.order))
    nn.functional.cross_entropy(plain(inputs), targets).backward()  # type: ignore[no-untyped-call]
    fc = plain.get_parameter("fc.weight")
    assert fc.grad is not None
    assert_near(stopped.module.get_parameter("fc.weight"), fc - 0.05 * fc.grad)


def trained_for(steps: int, *, to_mean: bool) -> FlatModel:
    """12 samples in batches of 4, two epochs, stopped after so many of its six steps."""
    flat, left = flat_tiny(), iter([False] * (steps - 1))
    train(
        flat, samples_of(12), settings=Sgd(learning_rate=0.05, batch_size=4, epochs=2, momentum=0.9), randomness=SEEDS,
        to_mean=to_mean, should_stop=lambda: next(left, True),
    )  # fmt: skip
    return flat


@pytest.mark.parametrize("steps", [1, 4, 6])
def test_training_to_the_mean_ends_at_the_mean_of_where_its_steps_led(steps: int) -> None:
    visited = torch.stack([trained_for(count, to_mean=False).trainable for count in range(1, steps + 1)])
    meant = trained_for(steps, to_mean=True)
    assert_near(meant.trainable, visited.mean(0))
    last = trained_for(steps, to_mean=False)
    assert torch.equal(meant.module.get_buffer("norm.running_mean"), last.module.get_buffer("norm.running_mean"))
    assert torch.equal(meant.trainable, last.trainable) == (steps == 1)


def test_the_loss_reported_is_the_mean_over_the_last_epoch() -> None:
    """With a step too small to matter it is the cross-entropy of the batches as they come: 8 and 5 of 13 samples."""
    settings = Sgd(learning_rate=1e-12, batch_size=8, epochs=2)
    flat, plain = flat_tiny(), ZOO["tiny"].make()
    metrics = train(flat, samples_of(13), objective=CROSS_ENTROPY, settings=settings, randomness=SEEDS)
    with torch.no_grad():
        last_epoch = list(batches_of(samples_of(13), settings, SEEDS.order))[2:]
        sums = [float(nn.functional.cross_entropy(plain(x), y, reduction="sum")) for x, y in last_epoch]
    assert metrics.loss == pytest.approx(sum(sums) / 13, rel=1e-5)


def test_gradients_are_released_after_a_round_and_after_a_failure() -> None:
    flat = flat_tiny()
    train(flat, samples_of(8), objective=CROSS_ENTROPY, settings=Sgd(), randomness=SEEDS)
    assert all(parameter.grad is None for parameter in flat.module.parameters())
    wrong = Samples(x=draw(8, 1, 2, 2), y=draw_labels(8), preprocessing=Preprocessing())
    with pytest.raises(RuntimeError):
        train(flat, wrong, objective=CROSS_ENTROPY, settings=Sgd(), randomness=SEEDS)
    assert all(parameter.grad is None for parameter in flat.module.parameters())


@pytest.mark.parametrize("device", DEVICES)
def test_dropout_is_reproducible_and_the_global_generators_are_left_alone(device: str) -> None:
    def trained(noise: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = TinyNet(dropout=0.5)
        flat = flat_tiny(model, device)
        seeds = Randomness(order=1, noise=noise)
        train(flat, samples_of(16, device), objective=CROSS_ENTROPY, settings=Sgd(), randomness=seeds)
        return flat.trainable.cpu()

    first = trained(noise=5)
    torch.rand(3)  # whatever others draw in between
    before, queued = torch.random.get_rng_state(), torch.cuda._lazy_seed_tracker.get_calls()
    assert torch.equal(trained(noise=5), first)
    assert not torch.equal(trained(noise=6), first)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.cuda._lazy_seed_tracker.get_calls() == queued  # seeds kept for devices not yet in use


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0.0), ("learning_rate", float("nan")), ("momentum", 1.0), ("momentum", -0.1),
        ("weight_decay", -1.0), ("weight_decay", float("nan")), ("batch_size", 1), ("epochs", 0),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidField, match=f"'{field}': got"):
        Sgd(**{field: value})  # type: ignore[arg-type]
