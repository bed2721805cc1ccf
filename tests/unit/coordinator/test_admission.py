"""Claims about which values are let in, with the wire's codes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator.admission import Judgement, distance_limit, inspect_stats, inspect_update
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats


def floats(*values: float) -> Float32Array:
    return np.asarray(values, dtype=np.float32)


def test_distance_is_the_length_over_all_blocks() -> None:
    """(3, 0) and (0, 4) away from what was sent: 5."""
    blocks = [(floats(4, 1), floats(1, 1)), (floats(0, 5), floats(0, 1))]
    assert inspect_update(blocks, size=4, limit=5.0) == Judgement(distance=5.0)
    assert inspect_update(blocks, size=4, limit=4.9).code == "too-far"


@pytest.mark.parametrize(
    ("value", "code"),
    [(np.nan, "not-finite"), (np.inf, "not-finite"), (-1e30, "out-of-range"), (1.1e6, "out-of-range")],
)
def test_one_bad_value_anywhere_refuses_the_update(value: float, code: str) -> None:
    blocks = [(floats(0, 0), None), (floats(0, value), None)]
    assert inspect_update(blocks, size=4, limit=None).code == code


def test_the_largest_admitted_value_is_a_million() -> None:
    assert inspect_update([(floats(1e6, -1e6), None)], size=2, limit=None) == Judgement()


def test_too_few_values_are_not_the_plans_tensors() -> None:
    assert inspect_update([(floats(1, 2), None)], size=3, limit=None).code == "wrong-tensors"


def test_nothing_shared_is_nothing_wrong() -> None:
    assert inspect_update([], size=0, limit=0.0) == Judgement(distance=0.0)


def test_what_was_not_sent_is_not_compared() -> None:
    assert inspect_update([(floats(9), None)], size=1, limit=1.0) == Judgement(distance=None)


@pytest.mark.parametrize(
    ("distances", "limit"),
    [((1.0, 2.0, 3.0, 4.0), None), ((1.0, 2.0, 3.0, 4.0, 5.0), 30.0), ((0.0,) * 5, None), ((), None)],
)
def test_limit_is_ten_medians_from_five_members_up(distances: tuple[float, ...], limit: float | None) -> None:
    assert distance_limit(distances) == limit


def moments(**changes: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
    found: dict[str, NDArray[np.generic]] = {
        "bn/count": np.asarray(50),
        "bn/mean": np.asarray([0.5, -0.5]),
        "bn/variance": np.asarray([1.0, 0.0]),
    }
    return found | {name.replace("_", "/"): value for name, value in changes.items()}


def judge(found: dict[str, NDArray[np.generic]], samples: int = 50, covariance: bool = False) -> Judgement | BnStats:
    return inspect_stats(found, samples=samples, channels={"bn": 2}, covariance=covariance, min_samples=32)


def test_good_statistics_become_moments() -> None:
    stats = judge(moments())
    assert isinstance(stats, BnStats)
    assert (stats.samples, stats.layer_names, stats.layers[0].count) == (50, ("bn",), 50)


@pytest.mark.parametrize(
    "found",
    [
        moments(bn_mean=np.asarray([np.nan, 0.0])),
        moments(bn_mean=np.asarray([1e300, 0.0])),
        moments(bn_variance=np.asarray([-1e-9, 0.0])),
        moments(bn_variance=np.asarray([1.0])),
        moments(bn_count=np.asarray(0)),
        moments(bn_count=np.asarray([50, 50])),
        moments(other_mean=np.asarray([1.0])),
        {name: value for name, value in moments().items() if name != "bn/mean"},
        moments(bn_covariance=np.eye(2)),
    ],
)
def test_statistics_that_no_measurement_gives_are_refused(found: dict[str, NDArray[np.generic]]) -> None:
    refused = judge(found)
    assert isinstance(refused, Judgement)
    assert refused.code == "bad-statistics"
    assert refused.reason


def test_covariance_is_there_exactly_when_the_plan_asks() -> None:
    full = moments(bn_covariance=np.diag([1.0, 0.0]))
    assert isinstance(judge(full, covariance=True), BnStats)
    assert isinstance(judge(moments(), covariance=True), Judgement)


def test_too_few_samples_say_nothing() -> None:
    assert isinstance(judge(moments(), samples=31), Judgement)
