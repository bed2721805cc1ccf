"""Claims about who gets what: sizes, shifts, sites, and requests that cannot be met."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.partition import by_site, dirichlet, dirichlet_pairs, iid


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def singles(n: int) -> IndexArray:
    return np.arange(n, dtype=np.int64)


def balanced_labels(n: int, classes: int) -> IndexArray:
    return np.arange(n, dtype=np.int64) % classes


def largest_class_share(labels: IndexArray, clients: tuple[IndexArray, ...]) -> float:
    return float(np.mean([np.bincount(labels[mine]).max() / mine.size for mine in clients]))


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 100.0])
def test_paired_clients_have_at_least_half_of_an_equal_share(alpha: float) -> None:
    """1,000 samples, 10 clients: parts of 200, so everyone has 50 to 150, and neighbours 200 together."""
    labels = balanced_labels(1_000, 10)
    sizes = [mine.size for mine in dirichlet_pairs(labels, singles(1_000), clients=10, alpha=alpha, rng=rng())]
    assert min(sizes) >= 50
    assert {first + second for first, second in zip(sizes[::2], sizes[1::2], strict=True)} == {200}


def test_last_of_an_odd_number_gets_a_part_of_half_the_size() -> None:
    """1,000 samples, 5 clients: two parts of 400 and one of 200."""
    labels = balanced_labels(1_000, 10)
    sizes = [mine.size for mine in dirichlet_pairs(labels, singles(1_000), clients=5, alpha=0.5, rng=rng())]
    assert (sizes[0] + sizes[1], sizes[2] + sizes[3], sizes[4]) == (400, 400, 200)


def test_one_client_gets_everything() -> None:
    (mine,) = dirichlet_pairs(balanced_labels(9, 3), singles(9), clients=1, alpha=0.1, rng=rng())
    assert mine.tolist() == list(range(9))


@pytest.mark.parametrize("divide", [dirichlet_pairs, dirichlet])
def test_smaller_alpha_gives_more_one_sided_clients(divide: object) -> None:
    labels = balanced_labels(2_000, 10)
    function = dirichlet_pairs if divide is dirichlet_pairs else dirichlet
    skewed = function(labels, singles(2_000), clients=4, alpha=0.05, rng=rng(1))
    even = function(labels, singles(2_000), clients=4, alpha=1_000.0, rng=rng(1))
    assert largest_class_share(labels, skewed) > 0.15
    assert largest_class_share(labels, even) < 0.13


def test_client_with_its_equal_share_gets_nothing_of_later_classes() -> None:
    """Class 0 holds 3/4 of the pair's data. Whoever has half of the data from it gets none of class 1."""
    labels = np.array([0] * 90 + [1] * 30)
    for seed in range(20):
        pair = dirichlet_pairs(labels, singles(120), clients=2, alpha=0.3, rng=rng(seed))
        for mine in pair:
            of_first, of_second = np.bincount(labels[mine], minlength=2)
            assert of_first < 60 or of_second == 0


def test_groups_stay_whole_and_count_as_their_majority_label() -> None:
    """Ten patients of ten samples, nine of one class and one of another: ten units, never divided."""
    groups = np.repeat(np.arange(10), 10)
    labels = np.repeat(np.arange(10) % 2, 10)
    labels[::10] = 7
    clients = dirichlet_pairs(labels, groups, clients=2, alpha=100.0, rng=rng())
    assert all(np.bincount(groups[mine], minlength=10).tolist().count(10) * 10 == mine.size for mine in clients)
    majority = [np.unique(labels[mine][labels[mine] != 7]).tolist() for mine in clients]
    assert majority == [[0, 1], [0, 1]]


def test_plain_dirichlet_redraws_until_everyone_has_enough() -> None:
    labels = balanced_labels(400, 4)
    sizes = [mine.size for mine in dirichlet(labels, singles(400), clients=4, alpha=0.3, rng=rng(), min_samples=40)]
    assert min(sizes) >= 40
    assert sum(sizes) == 400


def test_plain_dirichlet_that_cannot_be_met_names_a_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"3 clients with alpha 0\.1.*at least 5 samples.*fewer clients"):
        dirichlet(balanced_labels(9, 3), singles(9), clients=3, alpha=0.1, rng=rng(), min_samples=5)


def test_pair_that_cannot_be_balanced_names_a_remedy() -> None:
    """One patient holds all but one sample: no division gives the smaller a quarter."""
    groups = np.array([0] * 20 + [1])
    with pytest.raises(InvalidInput, match=r"alpha 0\.1.*at least 5\.25 samples each.*fewer clients"):
        dirichlet_pairs(np.zeros(21, dtype=np.int64), groups, clients=2, alpha=0.1, rng=rng())


def test_more_clients_than_groups_are_refused() -> None:
    with pytest.raises(InvalidInput, match="clients: got 9, expected 1 to 3, the number of groups"):
        dirichlet_pairs(np.zeros(3, dtype=np.int64), singles(3), clients=9, alpha=1.0, rng=rng())
    with pytest.raises(InvalidInput, match="clients: got 3, expected 1 to 2"):
        iid(np.array([0, 0, 1, 1]), clients=3, rng=rng())


def test_group_that_swallows_the_part_of_the_last_client_is_refused() -> None:
    """Patients of 70, 15 and 15 samples, cut at 2/3 for a pair and 1/3 for the third client. With the large one last,
    its middle, 30 + 35 = 65, is below 66.7: everything falls to the pair, where 70 and 30 are balanced enough.
    """
    groups = np.repeat(np.arange(3), [70, 15, 15])
    seed = next(seed for seed in range(99) if rng(seed).permutation(3)[-1] == 0)
    with pytest.raises(InvalidInput, match=r"no samples for client 2 of 3.*fewer clients"):
        dirichlet_pairs(np.zeros(100, dtype=np.int64), groups, clients=3, alpha=1.0, rng=rng(seed))


def test_sites_become_clients_in_ascending_order() -> None:
    found = by_site(np.array([7, 3, 7, 3, 3]))
    assert [(value, mine.tolist()) for value, mine in found] == [(3, [1, 3, 4]), (7, [0, 2])]


@pytest.mark.parametrize("site", [np.zeros((2, 2)), np.zeros(0)])
def test_site_column_of_wrong_shape_is_refused(site: IndexArray) -> None:
    with pytest.raises(InvalidInput, match="site"):
        by_site(site)


def test_iid_sizes_differ_by_at_most_one_sample() -> None:
    sizes = [mine.size for mine in iid(singles(10), clients=3, rng=rng())]
    assert sorted(sizes) == [3, 3, 4]


def test_iid_balances_groups_of_different_size() -> None:
    """Groups of 6, 3, 2, 1 over two clients: 6 | 3 + 2 + 1."""
    groups = np.repeat(np.arange(4), [6, 3, 2, 1])
    assert [mine.size for mine in iid(groups, clients=2, rng=rng())] == [6, 6]


def test_iid_shuffles() -> None:
    first, second = (iid(singles(50), clients=2, rng=rng(seed))[0].tolist() for seed in (0, 1))
    assert first != second


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_wrong_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        dirichlet(balanced_labels(9, 3), singles(9), clients=2, alpha=alpha, rng=rng())


def test_no_clients_and_no_samples_for_a_client_are_refused() -> None:
    with pytest.raises(InvalidInput, match="clients"):
        iid(singles(4), clients=0, rng=rng())
    with pytest.raises(InvalidInput, match="min_samples"):
        dirichlet(singles(4), singles(4), clients=2, alpha=1.0, rng=rng(), min_samples=0)


@pytest.mark.parametrize(("labels", "groups"), [((3,), (4,)), ((0,), (0,)), ((2, 2), (2, 2))])
def test_labels_and_groups_of_wrong_shape_are_refused(labels: tuple[int, ...], groups: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="one label and one group per sample"):
        dirichlet(np.zeros(labels, dtype=np.int64), np.zeros(groups, dtype=np.int64), clients=1, alpha=1.0, rng=rng())
