"""Local objectives: the terms written by hand are the gradients autograd finds, and parts that are not trained stay."""

from __future__ import annotations

import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.nn.head_inputs import fold_shift, head_input_mean, head_term
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, describe_tensors
from fedap_core.nn.training import Randomness, data_loss, train
from fedap_core.parts import Part
from fedap_core.preprocessing import Preprocessing
from fedap_core.workspace import Objective
from protocol.plan import Sgd
from tests.support.models import TINY_SHAPE, ZOO, draw, draw_labels

SAMPLES = Samples(x=draw(12, *TINY_SHAPE), y=draw_labels(12), preprocessing=Preprocessing())
ONE_STEP = Sgd(learning_rate=0.5, batch_size=12)


def trained(objective: Objective, *, parts: frozenset[Part] = frozenset(Part)) -> FlatModel:
    module = ZOO["tiny"].make()
    flat = FlatModel(module, describe_tensors(module, ["fc"]), frozenset({Part.HEAD}))
    train(flat, SAMPLES, settings=ONE_STEP, randomness=Randomness(order=1, noise=2), objective=objective, parts=parts)
    return flat


def test_a_pull_adds_the_gradient_of_half_its_strength_times_the_squared_distance() -> None:
    """One step of rate 0.5 from w towards t with strength 0.3 differs from one without by -0.5 * 0.3 (w - t)."""
    plain = trained(Objective())
    before = FlatModel(module := ZOO["tiny"].make(), describe_tensors(module, ["fc"]), frozenset({Part.HEAD})).trainable
    towards = draw(len(before), seed=3)
    pulled = trained(Objective(pull=0.3, towards=towards))
    torch.testing.assert_close(pulled.trainable, plain.trainable - 0.15 * (before.detach() - towards))


def test_a_shift_is_added_to_every_gradient() -> None:
    shift = draw(len(trained(Objective()).trainable), seed=4)
    torch.testing.assert_close(trained(Objective(shift=shift)).trainable, trained(Objective()).trainable - 0.5 * shift)


def test_a_pull_towards_the_start_does_nothing_in_the_first_step() -> None:
    assert torch.equal(trained(Objective(pull=0.3)).trainable, trained(Objective()).trainable)


@pytest.mark.parametrize("part", list(Part))
def test_only_the_named_part_is_trained(part: Part) -> None:
    flat, before = trained(Objective(), parts=frozenset({part})), ZOO["tiny"].make().state_dict()
    for spec in describe_tensors(flat.module, ["fc"]):
        if spec.trainable:
            moved = not torch.equal(flat.module.state_dict()[spec.name], before[spec.name])
            assert moved == (spec.part is part), spec.name
    assert all(parameter.requires_grad for parameter in flat.module.parameters())


def test_an_offset_of_the_logits_is_what_balanced_softmax_minimises() -> None:
    """Logits (0, 0) with offsets (ln 3, 0) are probabilities (3/4, 1/4): class 0 costs ln 4/3 = 0.2877."""
    objective = Objective(logit_offset=torch.tensor([1.0986123, 0.0]))
    assert float(data_loss(torch.zeros(1, 2), torch.tensor([0]), objective)) == pytest.approx(0.2876821, abs=1e-6)


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_strengths_are_finite_and_not_negative(strength: float) -> None:
    with pytest.raises(InvalidInput, match=r"objective\.pull"):
        Objective(pull=strength)


def test_the_data_loss_is_the_mean_cross_entropy() -> None:
    """Logits (0, 0) and (0, ln 3), both of class 0: losses ln 2 and ln 4, mean 1.5 ln 2 = 1.0397."""
    logits = torch.tensor([[0.0, 0.0], [0.0, 1.0986123]])
    assert float(data_loss(logits, torch.tensor([0, 0]))) == pytest.approx(1.0397208, abs=1e-6)


def test_a_shift_of_the_heads_inputs_is_learnt_and_folds_into_the_bias() -> None:
    """b <- b - rate * W^T dL/dlogits summed over the batch; a model with b in its bias gives the same logits."""
    module = ZOO["tiny"].make()
    weight = module.get_parameter("fc.weight").detach()
    shift = torch.zeros(weight.shape[1])
    module.train()
    logits = module(SAMPLES.x)
    logits.retain_grad()
    data_loss(logits, SAMPLES.y).backward()  # type: ignore[no-untyped-call]
    expected = -0.5 * logits.grad.sum(0) @ weight
    flat = trained(Objective(head_shift=shift))
    torch.testing.assert_close(shift, expected)
    flat.module.eval()
    with torch.no_grad(), head_term(flat, Objective(head_shift=shift), 0.0):
        shifted = flat.module(SAMPLES.x)
    fold_shift(flat, shift)
    with torch.no_grad():
        torch.testing.assert_close(flat.module(SAMPLES.x), shifted)


def test_a_pull_on_the_mean_of_features_brings_it_nearer() -> None:
    def distance(flat: FlatModel) -> float:
        return float((head_input_mean(flat, [SAMPLES.x]) - 3.0).norm())

    towards = torch.full_like(head_input_mean(trained(Objective()), [SAMPLES.x]), 3.0)
    pulled = trained(Objective(feature_pull=0.5, feature_mean=towards))
    assert distance(pulled) < distance(trained(Objective()))
