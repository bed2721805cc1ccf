"""Local objectives: the gradient written by hand is the gradient autograd finds."""

from __future__ import annotations

import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.nn.objectives import data_loss, pull_of
from fedap_core.objectives import ObjectiveSpec
from tests.support.models import draw


def test_the_proximal_pull_is_the_gradient_of_half_mu_times_the_squared_distance() -> None:
    parameters, received = draw(50, seed=1).requires_grad_(), draw(50, seed=2)
    (0.3 / 2 * (parameters - received).square().sum()).backward()  # type: ignore[no-untyped-call]
    pull = pull_of(ObjectiveSpec(name="proximal", strength=0.3))
    assert pull is not None
    gradient = torch.ones(50)
    with torch.no_grad():
        pull(gradient, parameters, received, 0.3)
    assert parameters.grad is not None
    torch.testing.assert_close(gradient, 1.0 + parameters.grad, rtol=1e-6, atol=1e-6)


def test_cross_entropy_alone_adds_nothing_at_any_strength() -> None:
    assert pull_of(ObjectiveSpec()) is None
    pull = pull_of(ObjectiveSpec(strength=1.0))
    assert pull is not None
    gradient = draw(5)
    pull(gradient, draw(5, seed=1), draw(5, seed=2), 1.0)
    assert torch.equal(gradient, draw(5))


def test_a_proximal_term_of_strength_zero_is_left_out() -> None:
    assert pull_of(ObjectiveSpec(name="proximal", strength=0.0)) is None


def test_an_unknown_objective_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'proximal'"):
        pull_of(ObjectiveSpec(name="proximate"))


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_strengths_are_finite_and_not_negative(strength: float) -> None:
    with pytest.raises(InvalidInput, match=r"objective\.strength"):
        ObjectiveSpec(name="proximal", strength=strength)


def test_the_data_loss_is_the_mean_cross_entropy() -> None:
    """Logits (0, 0) and (0, ln 3), both of class 0: losses ln 2 and ln 4, mean 1.5 ln 2 = 1.0397."""
    logits = torch.tensor([[0.0, 0.0], [0.0, 1.0986123]])
    assert float(data_loss(logits, torch.tensor([0, 0]))) == pytest.approx(1.0397208, abs=1e-6)
