"""Claims about ranks over data sets: ties, who is left out, and what is joined because it is not told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scripts.run.ranking import not_told_apart, rank, ranks_of
from scripts.run.results import Summary


def summary(algorithm: str, accuracies: list[float], *, seed: int = 0) -> Summary:
    mean = float(np.mean(accuracies))
    return Summary(
        algorithm=algorithm, seed=seed, rounds=10, last=mean, tail=mean, converged=1, per_client=tuple(accuracies),
        curve=((9, mean),),
    )  # fmt: skip


def test_equals_share_the_mean_of_their_places() -> None:
    assert ranks_of(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_ranks_are_averaged_over_sets_and_the_best_comes_first() -> None:
    """a is second and first, b first and second, c third twice; by the worst client a is first on both sets."""
    first = {
        name: [summary(name, values)] for name, values in (("a", [0.7, 0.7]), ("b", [0.6, 0.9]), ("c", [0.1, 0.2]))
    }
    second = {
        name: [summary(name, values)] for name, values in (("a", [0.8, 0.8]), ("b", [0.7, 0.7]), ("c", [0.1, 0.2]))
    }
    found = rank([first, second])
    assert [(one.name, one.mean, one.worst_mean) for one in found.algorithms] == [
        ("a", 1.5, 1.0),
        ("b", 1.5, 2.0),
        ("c", 3.0, 3.0),
    ]
    assert found.left_out == ()


def test_who_is_missing_on_a_set_is_not_ranked() -> None:
    both = {"a": [summary("a", [0.5])], "b": [summary("b", [0.4])]}
    found = rank([both, {"a": both["a"]}])
    assert [one.name for one in found.algorithms] == ["a"]
    assert found.left_out == ("b",)


def test_only_seeds_that_all_have_are_compared() -> None:
    """With seed 1, which b has not, a would be behind."""
    runs = {"a": [summary("a", [0.6]), summary("a", [0.0], seed=1)], "b": [summary("b", [0.5])]}
    assert [one.name for one in rank([runs]).algorithms] == ["a", "b"]


def test_neighbours_whose_difference_may_be_chance_are_joined() -> None:
    """The first two differ by a hundredth either way, the third by a tenth in every pair."""
    gap = np.tile([0.01, -0.01], 10)
    table = np.stack([0.9 + gap, np.full(20, 0.9), np.full(20, 0.8)], axis=1)
    assert not_told_apart([table]) == ((0, 1),)
    assert not_told_apart([table, table[:, [0, 1, 0]]]) == ((0, 1),)


def test_group_that_is_part_of_a_longer_one_is_not_shown() -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.1, (30, 4))
    assert not_told_apart([0.5 + noise]) == ((0, 3),)


def test_group_inside_an_earlier_longer_one_is_not_shown() -> None:
    """The first scatters so much that it reaches to the last; the second is apart, the third and the last are alike."""
    rng = np.random.default_rng(1)
    steady = np.array([0.80, 0.70, 0.70]) + rng.normal(0.0, 0.001, (20, 3))
    table = np.column_stack([0.82 + rng.normal(0.0, 0.4, 20), steady])
    assert not_told_apart([table]) == ((0, 3),)


def test_no_algorithm_is_told_apart_by_one_client() -> None:
    assert not_told_apart([np.array([[0.9, 0.5, 0.1]])]) == ((0, 2),)


def test_people_of_all_seeds_are_ranked_as_one_unit_each() -> None:
    """b is behind a by as little as people differ. Three equal seeds would make it a difference."""
    gaps = [0.09, -0.05, 0.08, -0.02, 0.07, 0.02, -0.03, 0.06]
    runs = {
        name: [
            replace(summary(name, [0.5 + share * gap for gap in gaps], seed=seed), same_clients=True)
            for seed in range(3)
        ]
        for name, share in (("a", 1.0), ("b", 0.0))
    }
    others = {name: [replace(run, same_clients=False) for run in found] for name, found in runs.items()}
    assert rank([runs]).groups == ((0, 1),)
    assert rank([others]).groups == ()
