"""The workspace of a strategy: steps are training, gradients are autograd's, parts and shares are respected."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.errors import InvalidInput
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, describe_tensors
from fedap_core.parts import Part
from fedap_core.preprocessing import Preprocessing
from fedap_core.strategies.fedap_plus import FedApPlus
from fedap_core.workspace import Objective
from participant.training.workspace import HomeModel, HomeWorkspace, ModelSettings, momentum_steps
from protocol.plan import Sgd
from tests.support.models import TINY_SHAPE, ZOO, draw, draw_labels

SAMPLES = Samples(x=draw(30, *TINY_SHAPE), y=draw_labels(30), preprocessing=Preprocessing())


def workspace(*, momentum: float = 0.0, epochs: int = 2, keep_momentum: bool = False) -> HomeWorkspace:
    module = ZOO["tiny"].make()
    trade = ModelSettings(
        participant="a",
        samples=SAMPLES,
        sgd=Sgd(learning_rate=0.05, batch_size=8, momentum=momentum, epochs=epochs, lr_schedule="cosine"),
        seed=3,
        keep_momentum=keep_momentum,
        evaluation_batch=16,
        rounds=range(2, 6),
        progress=lambda round_no: (round_no - 2) / 4,
    )
    flat = FlatModel(module, describe_tensors(module, ["fc"]), frozenset({Part.HEAD}))
    work = HomeWorkspace(flat, trade, keeps=("personal",), classes=3)
    work.begin_round(3)
    return work


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_over_the_batches_are_what_training_on_the_same_order_is(momentum: float) -> None:
    """The same model by a loop of torch's own optimiser over the batches of an equal workspace. Round 3 is the second
    of four, so the cosine schedule has the rate 0.05 * (1 + cos(pi / 4)) / 2."""
    work, book = workspace(momentum=momentum), ZOO["tiny"].make()
    rate = 0.05 * (1 + 0.5**0.5) / 2
    assert work.learning_rate == pytest.approx(rate)
    optimiser = torch.optim.SGD(book.parameters(), lr=rate, momentum=momentum)
    for batch in workspace().batches():
        optimiser.zero_grad()
        F.cross_entropy(book(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    for batch in work.batches():
        work.model.step(batch)
    for name, expected in book.state_dict().items():
        found = work.shared_model.flat.module.state_dict()[name]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert work.metrics.steps == 8
    assert work.metrics.samples == 60


def test_fine_tuning_begins_with_the_plans_rate_however_late_it_is() -> None:
    work = workspace()
    work.begin_round(5)
    late = work.learning_rate
    work.begin_round(5, scheduled=False)
    assert late < 0.01
    assert work.learning_rate == 0.05


def test_a_gradient_is_autograds_and_moves_no_parameter() -> None:
    work, book = workspace(), ZOO["tiny"].make()
    inputs, targets = batch = next(iter(work.batches()))
    F.cross_entropy(book(inputs), targets).backward()  # type: ignore[no-untyped-call]
    before = work.shared_model.values.clone()
    towards = draw(len(before), seed=2)
    gradient = work.shared_model.gradient(batch)
    parameters = dict(book.named_parameters())
    home_first = [
        spec
        for part in (True, False)
        for spec in describe_tensors(book, ["fc"])
        if spec.trainable and (spec.part is Part.HEAD) == part
    ]
    expected = torch.cat([grad_of(parameters[spec.name]) for spec in home_first])
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(work.shared_model.values, before)
    fresh = workspace()
    pulled = fresh.shared_model.gradient(batch, objective=Objective(pull=2.0, towards=towards))
    torch.testing.assert_close(pulled, gradient + 2.0 * (before - towards), rtol=1e-5, atol=1e-6)


def grad_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.flatten()


def test_a_step_of_one_part_leaves_the_others() -> None:
    work = workspace(momentum=0.9)
    before, head = work.shared_model.values.clone(), work.shared_model.mask({Part.HEAD})
    for batch in work.batches(epochs=1):
        work.model.step(batch, parts={Part.HEAD})
    moved = work.shared_model.values != before
    assert moved[head == 1.0].any()
    assert not moved[head == 0.0].any()


def test_a_share_of_the_data_is_drawn_again_for_every_epoch() -> None:
    seen = [tuple(targets.tolist()) for _, targets in workspace().batches(epochs=2, share=0.4)]
    assert sum(map(len, seen)) == 24
    assert seen[: len(seen) // 2] != seen[len(seen) // 2 :]
    with pytest.raises(InvalidInput, match="share"):
        next(iter(workspace().batches(share=0.0)))


def test_a_stopped_round_ends_the_batches_and_every_later_training() -> None:
    work = workspace()
    asked = iter([False, True])
    work.begin_round(3, lambda: next(asked))
    assert len([work.model.step(batch) for batch in work.batches()]) == 2  # type: ignore[func-returns-value]
    before = work.kept_models["personal"].values.clone()
    work.models["personal"].train()
    assert torch.equal(work.kept_models["personal"].values, before)


def trained_twice(work: HomeWorkspace) -> None:
    work.model.train()
    work.models["personal"].train()
    work.vectors["alpha"] = work.vector([0.25, 0.5])


def test_what_is_kept_comes_back_in_another_workspace() -> None:
    first, second = workspace(momentum=0.9, keep_momentum=True), workspace(momentum=0.9, keep_momentum=True)
    trained_twice(first)
    second.load(first.kept())
    assert {name: tensor.tolist() for name, tensor in second.kept().items()} == {
        name: tensor.tolist() for name, tensor in first.kept().items()
    }
    first.begin_round(4)
    second.begin_round(4)
    for work in (first, second):
        work.models["personal"].train()
    assert torch.equal(first.kept_models["personal"].values, second.kept_models["personal"].values)


@pytest.mark.parametrize("which", [lambda work: work.model, lambda work: work.models["personal"]])
def test_a_copy_can_be_trained_without_a_trace(which: Callable[[HomeWorkspace], HomeModel]) -> None:
    work = workspace()
    trained_twice(work)
    model = which(work)
    before = model.flat.state()
    copy = work.copy(model)
    assert torch.equal(copy.values, model.values)  # type: ignore[arg-type]  # every vector here is a tensor
    copy.train(epochs=1)
    copy.reestimate()
    assert not torch.equal(copy.values, model.values)  # type: ignore[arg-type]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.flat.state().items())
    assert work.copy(copy) is copy


def test_what_is_no_vector_of_the_workspace_cannot_be_kept() -> None:
    work = workspace()
    work.vectors["alpha"] = 0.5  # type: ignore[assignment]
    with pytest.raises(InvalidInput, match=r"work\.vector"):
        work.kept()


@pytest.mark.parametrize(("momentum", "fresh", "expected"), [(0.0, True, 3.0), (0.5, True, 4.25), (0.5, False, 6.0)])
def test_momentum_makes_steps_count_for_more(momentum: float, fresh: bool, expected: float) -> None:
    """Velocities of three steps under a gradient of 1: 1, 1.5, 1.75 from rest; 2 each once in motion."""
    assert momentum_steps(momentum, 3, fresh) == expected


def test_only_tensors_that_the_strategy_lists_travel_beside_the_weights() -> None:
    with pytest.raises(InvalidInput, match="tensor: got control, expected one in `beside` of the strategy: none"):
        workspace().received("control")


def deliver(work: HomeWorkspace, values: Tensor) -> None:
    work.shared_model.assign(values)
    FedApPlus().deliver(work)


def test_personal_model_of_fedap_plus_starts_from_the_first_delivery_and_moves_along_with_the_next() -> None:
    """A member that joins late gets weights far from the initial ones. Delivered twice, weights move it once."""
    work = workspace()
    first, second = (draw(len(work.shared_model.values), seed=seed) for seed in (5, 6))
    personal = work.kept_models["personal"]
    deliver(work, first)
    assert torch.equal(personal.values, first)
    FedApPlus().train(work)
    trained = personal.values.clone()
    assert not torch.equal(trained, first)
    deliver(work, second)
    torch.testing.assert_close(personal.values, trained + second - first)
    once = personal.values.clone()
    deliver(work, second)
    assert torch.equal(personal.values, once)


def test_delivered_model_of_fedap_plus_goes_on_with_its_way_per_round_and_less_after_an_absence() -> None:
    """Rounds of the workspace begin with 2. Trained from `first` in round 1 and from `second` in round 3, so a round's
    way is half of what lies between, for all but batch norm. In round 3 + k the momentum is 0.4 ^ k: the limit, which
    is below t / (t + 3) from round 2 on."""
    plus = FedApPlus(momentum=0.4)
    work = workspace()
    model = work.shared_model
    first, second, third = (draw(len(model.values), seed=seed) for seed in (5, 6, 7))
    for round_no, start in ((1, first), (3, second)):
        work.begin_round(2 + round_no)
        model.assign(start)
        plus.deliver(work)
        assert torch.equal(model.values, start)
        plus.train(work)
    way = (second - first) / 2 * model.mask({Part.BODY, Part.HEAD})
    assert not torch.equal(way, (second - first) / 2)
    for absence in (1, 2):
        work.begin_round(2 + 3 + absence)
        model.assign(third)
        plus.deliver(work)
        torch.testing.assert_close(model.values, third + 0.4**absence * way)
