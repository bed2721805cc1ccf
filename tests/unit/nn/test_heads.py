"""The head: the last Linear or 1x1 convolution that is executed, found without a trace left in the model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.heads import device_of, evaluating, find_head, is_head_like
from tests.support.models import ZOO, Unreached


class Branching(nn.Module):
    """Executes its layers in another order than it registers them; one layer never; one twice."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)
        self.shared = nn.Linear(2, 2)
        self.never = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.shared(self.shared(x)))
        return logits


class FailingModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("a fault of the model")


@pytest.mark.parametrize("name", ZOO)
def test_the_head_is_the_last_classifying_layer_executed(name: str) -> None:
    specimen = ZOO[name]
    assert find_head(specimen.make(), specimen.input_shape) == specimen.head


def test_execution_decides_not_registration() -> None:
    assert find_head(Branching(), (2,)) == "last"


@pytest.mark.parametrize("name", ["tiny", "cumulative", "untracked"])
def test_looking_for_the_head_leaves_tensors_modes_and_hooks_as_they_were(name: str) -> None:
    specimen = ZOO[name]
    model = specimen.make().train()
    next(iter(model.children())).eval()
    modes = [module.training for module in model.modules()]
    before = {entry: tensor.clone() for entry, tensor in model.state_dict().items()}
    find_head(model, specimen.input_shape)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[entry], tensor) for entry, tensor in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_hooks_are_removed_even_when_the_model_fails() -> None:
    model = FailingModule()
    with pytest.raises(RuntimeError, match="a fault of the model"):
        find_head(model, (2,))
    assert not model.fc._forward_pre_hooks
    assert model.training


def test_a_model_without_a_classifying_layer_is_refused_with_the_way_out() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())
    with pytest.raises(InvalidInput, match=r"head = \[...\]"):
        find_head(model, (1, 3, 3))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Linear(2, 2), True),
        (nn.Conv1d(2, 2, 1), True),
        (nn.Conv2d(2, 2, 1), True),
        (nn.Conv3d(2, 2, 1), True),
        (nn.Conv2d(2, 2, (1, 3)), False),
        (nn.ConvTranspose2d(2, 2, 1), False),
        (nn.BatchNorm1d(2), False),
    ],
)
def test_linear_layers_and_pointwise_convolutions_can_be_heads(layer: nn.Module, expected: bool) -> None:
    assert is_head_like(layer) is expected


def test_a_model_lives_where_its_tensors_live() -> None:
    assert device_of(nn.Linear(2, 2, device="meta")) == torch.device("meta")
    assert device_of(nn.BatchNorm1d(2, affine=False, device="meta")) == torch.device("meta")
    assert device_of(nn.ReLU()) == torch.device("cpu")


def test_every_module_gets_its_own_mode_back_even_after_a_failure() -> None:
    model = Unreached().train()
    model.spare.eval()

    def fail_inside() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert (model.training, model.used.training, model.spare.training) == (True, True, False)
