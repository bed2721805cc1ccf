"""Evaluation: counts worked out by hand, independent of batches, without a trace in the model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.evaluation import evaluate
from fedap_core.nn.samples import Samples
from fedap_core.preprocessing import Preprocessing
from tests.support.models import TINY_SHAPE, TinyNet, draw, draw_labels


def samples_of(x: Tensor, y: Tensor) -> Samples:
    return Samples(x=x, y=y, preprocessing=Preprocessing())


def test_counts_and_loss_are_those_worked_out_by_hand() -> None:
    """The inputs are the logits. Truth 0 0 1 2 against predictions 0 1 1 1: two correct; rows are the truth.

    Loss of (ln 2, 0, 0) for class 0: ln(2 + 1 + 1) - ln 2 = ln 2; of (0, ln 2, 0) for class 0 and class 2: ln 4, and
    for class 1: ln 2. Mean: (ln 2 + ln 4 + ln 2 + ln 4) / 4 = 1.5 ln 2.
    """
    ln2 = 0.6931472
    logits = torch.tensor([[ln2, 0.0, 0.0], [0.0, ln2, 0.0], [0.0, ln2, 0.0], [0.0, ln2, 0.0]])
    found = evaluate(nn.Identity(), samples_of(logits, torch.tensor([0, 0, 1, 2])), classes=3)
    assert (found.samples, found.correct, found.accuracy) == (4, 2, 0.5)
    assert found.confusion.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert found.loss == pytest.approx(1.5 * ln2, abs=1e-6)


@pytest.mark.parametrize("batch_size", [2, 7, 29, 256])
def test_batches_do_not_matter_and_the_model_is_left_as_it_was(batch_size: int) -> None:
    model = TinyNet(dropout=0.5).train()
    before = {entry: tensor.clone() for entry, tensor in model.state_dict().items()}
    inputs, labels = draw(29, *TINY_SHAPE), draw_labels(29)
    found = evaluate(model, samples_of(inputs, labels), classes=3, batch_size=batch_size)
    assert all(torch.equal(before[entry], tensor) for entry, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        logits = model.eval()(inputs)
    assert found.correct == int((logits.argmax(dim=1) == labels).sum())
    assert found.loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-5)


def test_a_diverged_model_is_evaluated_not_refused() -> None:
    found = evaluate(nn.Identity(), samples_of(torch.full((2, 2), float("nan")), torch.tensor([0, 1])), classes=2)
    assert found.samples == 2
    assert found.loss != found.loss


@pytest.mark.parametrize("shape", [(4, 4), (4, 2), (4, 3, 1)])
def test_a_model_with_another_number_of_outputs_than_classes_is_refused(shape: tuple[int, ...]) -> None:
    """Otherwise a prediction of class 3 of 0..2 for truth 0 would silently count as class 0 for truth 1."""
    logits = torch.zeros(shape)
    logits[:, -1] = 1.0
    with pytest.raises(InvalidInput, match=r"model output: got \(.*\), expected one logit for each of 3 classes"):
        evaluate(nn.Identity(), samples_of(logits, torch.tensor([0, 0, 1, 1])), classes=3)


def test_nothing_to_evaluate_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"evaluation\.samples"):
        evaluate(nn.Identity(), samples_of(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)), classes=3)
