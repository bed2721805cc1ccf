"""Claims about clients: who has what, that nothing is had twice, and that a seed decides it all."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.partition import dirichlet
from fedap_core.randomness import generator
from participant.data import load_dataset
from participant.data.base import DataOptions
from scripts.run.anchors import anchor_samples
from scripts.run.cohort import Cohort, make_cohort, model_file_name
from scripts.run.settings import CohortSettings
from tests.support.cohorts import DATA_OPTIONS, clients_of, small_run

DIVISIONS: dict[str, dict[str, object]] = {
    "iid": {"partition": "iid"},
    "pairs": {"partition": "dirichlet-pairs", "clients": 2, "alpha": 0.5, "min_samples": 8},
    "dirichlet": {"partition": "dirichlet", "alpha": 1.0, "min_samples": 4},
    "site": {"partition": "site"},
    "reference": {"partition": "iid", "protocol": "reference", "min_samples": 16},
    "overlapping": {"partition": "iid", "overlapping_windows": True},
    "validation": {"partition": "iid", "validation": 0.2, "min_samples": 16},
    "overlapping validation": {
        "partition": "iid",
        "validation": 0.2,
        "overlapping_windows": True,
        "min_samples": 16,
    },
}


def cohort_of(division: str, seed: int = 0) -> Cohort:
    return clients_of(small_run("base", cohort=DIVISIONS[division], seed=seed))


@pytest.mark.parametrize("division", DIVISIONS)
def test_no_sample_is_in_two_clients_or_on_two_sides(division: str) -> None:
    cohort = cohort_of(division)
    parts = [set(indices.tolist()) for client in cohort.clients for indices in client.splits.values()]
    assert all(not first & second for first, second in combinations(parts, 2))
    assert set().union(*parts) == set(range(240))


@pytest.mark.parametrize("division", DIVISIONS)
def test_same_seed_gives_the_same_clients(division: str) -> None:
    first, second = cohort_of(division), cohort_of(division)
    for mine, theirs in zip(first.clients, second.clients, strict=True):
        assert mine.name == theirs.name
        assert {n: i.tolist() for n, i in mine.splits.items()} == {n: i.tolist() for n, i in theirs.splits.items()}


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_anchor_sees_training_samples_only(division: str, share: float) -> None:
    cohort = cohort_of(division)
    seen = set(anchor_samples(cohort, share=share, seed=0).tolist())
    training = {index for client in cohort.clients for index in client.splits["train"].tolist()}
    assert seen <= training
    assert len(seen) == max(2, round(share * len(training)))


def test_anchor_sees_other_samples_under_another_seed_and_never_one_twice() -> None:
    cohort = cohort_of("iid")
    first, second = (anchor_samples(cohort, share=0.5, seed=seed).tolist() for seed in (0, 1))
    assert first != second
    assert len(set(first)) == len(first)


def test_sites_become_clients_under_their_names() -> None:
    cohort = cohort_of("site")
    assert [client.name for client in cohort.clients] == ["site-0", "site-1", "site-2"]
    assert cohort.data.site is not None
    for number, client in enumerate(cohort.clients):
        assert set(cohort.data.site[np.concatenate(list(client.splits.values()))].tolist()) == {number}


def test_numbered_clients_sort_as_they_count() -> None:
    settings = CohortSettings(data="synthetic", data_options=DATA_OPTIONS, partition="iid", clients=12, min_samples=2)
    names = [client.name for client in make_cohort(settings, 0).clients]
    assert names == [f"c{number:02d}" for number in range(1, 13)]


def test_class_counts_cover_all_splits() -> None:
    cohort = cohort_of("reference")
    counts = np.array(cohort.class_counts())
    assert counts.shape == (3, 3)
    assert counts.sum(axis=0).tolist() == np.bincount(cohort.data.y).tolist()


def test_samples_are_those_of_the_positions() -> None:
    cohort = cohort_of("iid")
    samples = cohort.samples(cohort.clients[1], torch.device("cpu"))
    positions = cohort.clients[1].splits["test"]
    assert set(samples) == {"train", "test"}
    np.testing.assert_array_equal(samples["test"].x.numpy(), cohort.data.x[positions])
    np.testing.assert_array_equal(samples["test"].y.numpy(), cohort.data.y[positions])


@pytest.mark.parametrize(
    ("division", "said"),
    [
        ({"partition": "iid", "clients": 20}, "Use fewer clients"),
        ({"partition": "iid", "min_samples": 41}, "Use fewer clients"),
        ({"partition": "iid", "min_samples": 41}, "Or lower min_samples"),
        ({"partition": "dirichlet", "alpha": 1e-3, "min_samples": 70}, "larger alpha"),
        ({"partition": "dirichlet-pairs", "alpha": 0.1, "min_samples": 70}, "larger alpha"),
    ],
)
def test_client_with_too_few_samples_is_refused_with_a_remedy(division: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        clients_of(small_run("base", cohort=division))


@pytest.mark.parametrize("options", [{}, {"validation": 0.2}, {"protocol": "reference"}])
def test_dirichlet_is_drawn_until_everyone_has_enough_to_train_on(options: dict[str, object]) -> None:
    """The first draw of seed 3 with 16 samples for everyone leaves a client 13 or fewer to train on."""
    cohort = {"partition": "dirichlet", "alpha": 0.3, "min_samples": 16, **options}
    clients = clients_of(small_run("base", cohort=cohort, seed=3)).clients
    assert all(len(client.splits["train"]) >= 16 for client in clients)
    assert all(len(part) for client in clients for part in client.splits.values())


def test_the_first_draw_with_enough_to_train_on_is_taken() -> None:
    """The draw that one who asks for samples alone gets, because all of its clients have enough to train on."""
    settings = CohortSettings(data="synthetic", data_options=DATA_OPTIONS, partition="dirichlet", clients=3, alpha=2.0)
    data = load_dataset("synthetic", DataOptions(options=DATA_OPTIONS))
    rng = generator(1, purpose="partition")
    drawn = dirichlet(data.y, data.group, clients=3, alpha=2.0, rng=rng, min_samples=settings.min_samples)
    found = [np.sort(np.concatenate(list(client.splits.values()))) for client in make_cohort(settings, 1).clients]
    assert [mine.tolist() for mine in found] == [mine.tolist() for mine in drawn]


def write_sites(path: Path, sizes: dict[str, int]) -> CohortSettings:
    samples = sum(sizes.values())
    site = np.repeat(list(sizes), list(sizes.values()))
    np.savez(path, allow_pickle=False, x=np.zeros((samples, 1, 16, 16), np.uint8), y=np.arange(samples) % 2, site=site)
    return CohortSettings(data=str(path), partition="site")


def test_all_sites_with_too_few_samples_are_named_and_what_can_be_done_about_them(tmp_path: Path) -> None:
    """East has 20 samples to train on and West 10: a limit of 10 would do, but not for North, which has one in all."""
    settings = write_sites(tmp_path / "a.npz", {"east": 40, "south": 100, "west": 20})
    with pytest.raises(InvalidInput) as refused:
        make_cohort(settings, 0)
    assert str(refused.value) == (
        "training samples of client east: got 20, expected at least 32. Remove from the data, or join with others: "
        "east, west. Or lower min_samples (compare --min-samples)."
    )
    with pytest.raises(InvalidInput, match=r"join with others: east, north\.$"):
        make_cohort(write_sites(tmp_path / "b.npz", {"east": 40, "north": 1, "south": 100}), 0)
    lower = settings.model_copy(update={"min_samples": 10})
    assert [len(client.splits["train"]) for client in make_cohort(lower, 0).clients] == [20, 50, 10]


def test_data_without_sites_cannot_be_divided_by_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, allow_pickle=False, x=np.zeros((80, 1, 16, 16), np.uint8), y=np.arange(80) % 2)
    with pytest.raises(InvalidInput, match="data with sites"):
        make_cohort(CohortSettings(data=str(path), partition="site"), 0)


def test_model_files_of_oddly_named_sites_stay_in_their_folder_and_apart() -> None:
    names = ["ward 3", "ward/3", "ward%2F3", "../../etc/passwd", "/root", "Zürich"]
    files = [model_file_name(name) for name in names]
    assert files[0] == "ward 3.safetensors"
    assert files[-1] == "Zürich.safetensors"
    assert len(set(files)) == len(names)
    assert all(Path(file).name == file for file in files)
