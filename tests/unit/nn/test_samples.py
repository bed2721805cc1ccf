"""How samples become batches: the last one is never alone, stored values are never touched."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedap_core.errors import InvalidInput
from fedap_core.nn.samples import AT_ONCE, Samples, batch_bounds
from fedap_core.preprocessing import IMAGE_8BIT, Preprocessing
from tests.support.models import draw, draw_labels


@pytest.mark.parametrize(
    ("samples", "batch_size", "expected"),
    [
        (0, 4, []),
        (1, 4, [(0, 1)]),
        (4, 4, [(0, 4)]),
        (5, 4, [(0, 5)]),
        (6, 4, [(0, 4), (4, 6)]),
        (8, 4, [(0, 4), (4, 8)]),
        (9, 4, [(0, 4), (4, 9)]),
        (3, 2, [(0, 3)]),
    ],
)
def test_a_last_batch_of_one_joins_the_one_before(
    samples: int, batch_size: int, expected: list[tuple[int, int]]
) -> None:
    assert batch_bounds(samples, batch_size) == expected


@pytest.mark.parametrize(
    ("samples", "batch_size", "sizes"),
    [
        (0, 4, []),
        (1, 4, [1]),
        (5, 4, [5]),
        (6, 4, [3, 3]),
        (9, 4, [5, 4]),
        (34, 32, [34]),
        (66, 32, [33, 33]),
        (100, 32, [34, 33, 33]),
        (3, 2, [3]),
        (5, 2, [3, 2]),
        (7, 2, [3, 2, 2]),
    ],
)
def test_even_batches_differ_by_one_sample_at_most(samples: int, batch_size: int, sizes: list[int]) -> None:
    """round(6 / 4) = 2 batches of 3; round(66 / 32) = 2 of 33. Of 3 samples by 2, round(1.5) = 2 batches would leave
    one sample alone, and of 7 by 2, round(3.5) = 4: then one batch less is made."""
    bounds = batch_bounds(samples, batch_size, "even")
    assert [stop - start for start, stop in bounds] == sizes


def test_8_bit_images_become_numbers_from_minus_one_to_one() -> None:
    """0 / 127.5 - 1 = -1, 255 / 127.5 - 1 = 1, 51 / 127.5 - 1 = -0.6."""
    samples = Samples(
        x=torch.tensor([[0], [255], [51]], dtype=torch.uint8), y=torch.zeros(3, dtype=torch.int64),
        preprocessing=IMAGE_8BIT,
    )  # fmt: skip
    (inputs,) = samples.inputs(8)
    assert inputs.dtype == torch.float32
    torch.testing.assert_close(inputs, torch.tensor([[-1.0], [1.0], [-0.6]]))
    assert samples.x.dtype == torch.uint8


def test_batches_follow_the_given_order() -> None:
    samples = Samples(
        x=torch.arange(4.0)[:, None], y=torch.arange(4), preprocessing=Preprocessing(scale=2.0, offset=1.0)
    )
    batches = list(samples.batches(2, torch.tensor([3, 1, 0, 2])))
    assert [inputs.flatten().tolist() for inputs, _ in batches] == [[7.0, 3.0], [1.0, 5.0]]
    assert [targets.tolist() for _, targets in batches] == [[3, 1], [0, 2]]
    assert [targets.tolist() for _, targets in samples.batches(2)] == [[0, 1], [2, 3]]
    assert len(samples) == 4


@pytest.mark.parametrize("preprocessing", [Preprocessing(), IMAGE_8BIT])
@pytest.mark.parametrize("stored", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("count", "values"), [(11, 4), (11, 3), (9, AT_ONCE // 8)])
def test_an_epoch_prepared_at_once_has_the_bits_and_the_alignment_of_its_batches(
    count: int, values: int, stored: torch.dtype, preprocessing: Preprocessing
) -> None:
    """4 batches of 4 values begin on 64 bytes; 4 of 3 do not, and 9 times an eighth of the most is too much."""
    x = torch.randint(0, 256, (count, values), generator=torch.Generator().manual_seed(1)).to(stored)
    samples = Samples(x=x, y=draw_labels(count), preprocessing=preprocessing)
    order = torch.arange(count).flip(0)
    for (inputs, _), (start, stop) in zip(samples.batches(4, order), batch_bounds(count, 4), strict=True):
        assert torch.equal(inputs, samples.prepare(x[order][start:stop]))
        assert inputs.data_ptr() % 64 == 0


@pytest.mark.parametrize("preprocessing", [Preprocessing(), Preprocessing(scale=2.0)])
def test_a_model_that_works_in_place_cannot_change_the_stored_values(preprocessing: Preprocessing) -> None:
    stored = draw(6, 3)
    samples = Samples(x=stored.clone(), y=draw_labels(6), preprocessing=preprocessing)
    careless = nn.ReLU(inplace=True)
    batches = (*samples.batches(4), *samples.batches(4, torch.arange(6)), *samples.batches(16, torch.arange(6)))
    for inputs, _ in batches:
        careless(inputs)
    for inputs in samples.inputs(4):
        careless(inputs)
    assert torch.equal(samples.x, stored)


def test_samples_without_a_label_each_are_refused() -> None:
    with pytest.raises(InvalidInput, match="labels: got 3 labels, expected one for each of 4 samples"):
        Samples(x=draw(4, 2), y=draw_labels(3), preprocessing=Preprocessing())
