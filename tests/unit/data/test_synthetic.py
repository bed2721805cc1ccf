"""Made-up data: the asked-for shifts are there, equal seeds give equal bits, and a small network learns them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.models import ModelRequest, build_model
from fedap_core.nn.samples import apply
from participant.data import synthetic
from participant.data.base import DataOptions, Dataset
from participant.data.synthetic import load
from protocol.plan import PEER_NAME


def made(**options: str) -> Dataset:
    return load(DataOptions(options=options))


def label_shares(dataset: Dataset) -> list[list[float]]:
    assert dataset.site is not None
    sites, classes = len(dataset.site_names), len(dataset.classes)
    counts = [np.bincount(dataset.y[dataset.site == site], minlength=classes) for site in range(sites)]
    return [(count / count.sum()).tolist() for count in counts]


def test_default_is_four_sites_of_500_small_images() -> None:
    dataset = made()
    assert dataset.x.shape == (2000, 1, 16, 16)
    assert dataset.x.dtype == np.uint8
    assert dataset.site is not None
    assert np.bincount(dataset.site).tolist() == [500] * 4
    assert len(dataset.classes) == 5


def test_every_site_can_be_the_name_of_a_participant() -> None:
    assert all(re.fullmatch(PEER_NAME, name) for name in made(sites="12").site_names)


def test_equal_seeds_give_equal_bits_and_other_seeds_others() -> None:
    first, second, third = made(seed="7"), made(seed="7"), made(seed="8")
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(first.y, second.y)
    assert not np.array_equal(first.x, third.x)


@pytest.mark.parametrize("shape", ["2x5x6", "2x30"])
def test_how_many_samples_are_made_at_once_changes_none(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for at_once in (1, 7 * 60, 1 << 30):
        monkeypatch.setattr(synthetic, "_AT_ONCE", at_once)
        made.append(load(DataOptions(options={"samples": "101", "shape": shape})))
    assert made[0].x.tobytes() == made[1].x.tobytes() == made[2].x.tobytes()


def test_full_label_shift_leaves_each_site_its_own_classes() -> None:
    """4 classes on 2 sites: site 0 has classes 0 and 2, site 1 has 1 and 3."""
    shares = np.array(label_shares(made(classes="4", sites="2", label_shift="1")))
    assert (shares > 0).tolist() == [[True, False, True, False], [False, True, False, True]]


def test_no_label_shift_gives_all_sites_the_same_shares() -> None:
    """1,000 draws per site from five equal classes: a share strays less than 0.07 (over five standard deviations)."""
    shares = np.array(label_shares(made(samples="4000", label_shift="0")))
    assert np.abs(shares - 0.2).max() < 0.07


def test_more_sites_than_classes_is_possible() -> None:
    shares = np.array(label_shares(made(classes="2", sites="3", label_shift="1")))
    assert (shares > 0).tolist() == [[True, False], [False, True], [True, False]]


def test_feature_shift_moves_the_mean_image_of_a_class_between_sites() -> None:
    """Without shift only noise differs: 0.3 * 127.5 grey values over some 200 images a site, under 15 anywhere."""

    def largest_difference(shift: str) -> float:
        dataset = made(samples="2000", classes="5", sites="2", label_shift="0", feature_shift=shift)
        assert dataset.site is not None
        means = [dataset.x[(dataset.y == 0) & (dataset.site == site)].mean(axis=0) for site in (0, 1)]
        return float(np.abs(means[0] - means[1]).max())

    assert largest_difference("0") < 15.0
    assert largest_difference("1") > 30.0


def test_a_two_sized_shape_gives_signals() -> None:
    dataset = made(shape="6x50", samples="40")
    assert dataset.x.shape == (40, 6, 50)
    assert dataset.x.dtype == np.float32
    assert dataset.preprocessing.is_identity


@pytest.mark.parametrize(
    "options", [{"classes": "1"}, {"label_shift": "1.5"}, {"shape": "16"}, {"samples": "0"}, {"feature_shfit": "1"}]
)
def test_impossible_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=f"option.*{next(iter(options))}"):
        load(DataOptions(options=options))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Batches this small only get slower with threads, much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_lenet_learns_it_within_three_epochs() -> None:
    """Half of the samples train, the other half is recognised well above the best guess of about one in five."""
    dataset = made(samples="1200")
    x = apply(dataset.preprocessing, torch.from_numpy(dataset.x).float())
    y = torch.from_numpy(dataset.y)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(dataset)))
    model = build_model("lenet5", ModelRequest(input_shape=dataset.input_shape, classes=5), seed=0)
    for _ in range(3):
        for batch in torch.chunk(order[:600], 19):
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter.sub_(gradient, alpha=0.05)
    model.eval()
    with torch.no_grad():
        right = model(x[order[600:]]).argmax(dim=1) == y[order[600:]]
    assert float(right.float().mean()) > 0.85
