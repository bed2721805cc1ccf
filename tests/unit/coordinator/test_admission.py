"""Claims about which values are let in, with the wire's codes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator.decisions import admission
from coordinator.decisions.admission import (
    Bounds,
    CheckedUpdate,
    Judgement,
    UpdateShape,
    bounds_of,
    implausible,
    inspect_stats,
    inspect_update,
    shape_of,
    typical,
)
from coordinator.decisions.rules import AdmissionRules
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.parts import Part, TensorSpec


def floats(*values: float) -> Float32Array:
    return np.asarray(values, dtype=np.float32)


def shape(size: int, statistics: int = 0) -> UpdateShape:
    """The last `statistics` values are variances."""
    trained = size - statistics
    return UpdateShape(size=size, trained=trained, variances=((trained, size),) if statistics else ())


def bounds(limit: float | None = None) -> Bounds:
    return Bounds(limit=limit, rules=AdmissionRules(max_value=1e4, max_statistic=1e3))


def test_distance_is_the_length_over_all_blocks() -> None:
    """(3, 0) and (0, 4) away from what was sent: 5."""
    blocks = [(floats(4, 1), floats(1, 1)), (floats(0, 5), floats(0, 1))]
    assert inspect_update(blocks, shape=shape(4), bounds=bounds(5.0)) == Judgement(distance=5.0)
    assert inspect_update(blocks, shape=shape(4), bounds=bounds(4.9)).code == "too-far"


@pytest.mark.parametrize(
    ("value", "code"),
    [(np.nan, "not-finite"), (np.inf, "not-finite"), (-1e30, "out-of-range"), (1.1e4, "out-of-range")],
)
def test_one_bad_value_anywhere_refuses_the_update(value: float, code: str) -> None:
    blocks = [(floats(0, 0), None), (floats(0, value), None)]
    assert inspect_update(blocks, shape=shape(4), bounds=bounds()).code == code


def test_the_largest_admitted_value_is_the_bound_itself() -> None:
    assert inspect_update([(floats(1e4, -1e4), None)], shape=shape(2), bounds=bounds()) == Judgement()


@pytest.mark.parametrize(
    ("value", "code"), [(-1e-6, "out-of-range"), (1e6, None), (1.1e6, "out-of-range"), (np.nan, "not-finite")]
)
def test_a_running_variance_is_bounded_by_the_square_of_a_statistic_and_never_negative(
    value: float, code: str | None
) -> None:
    """Bound 1e3 for means: 1e6 for variances. The block boundary lies inside the statistics."""
    blocks = [(floats(1, 1, 2), None), (floats(3, value), None)]
    assert inspect_update(blocks, shape=shape(5, statistics=3), bounds=bounds()).code == code


def test_running_means_have_a_bound_of_their_own_and_no_part_in_the_distance() -> None:
    """One trained value, then a mean that goes 900 away: within 1e3, and the distance is the trained value's 3."""
    found = inspect_update(
        [(floats(4, 900), floats(1, 0))], shape=UpdateShape(size=2, trained=1), bounds=bounds(limit=3.0)
    )
    assert found == Judgement(distance=3.0)
    assert inspect_update([(floats(0, 1001), None)], shape=UpdateShape(size=2, trained=1), bounds=bounds()).code


def test_too_few_values_are_not_the_plans_tensors() -> None:
    assert inspect_update([(floats(1, 2), None)], shape=shape(3), bounds=bounds()).code == "wrong-tensors"


def test_nothing_shared_is_nothing_wrong() -> None:
    assert inspect_update([], shape=shape(0), bounds=bounds(0.0)) == Judgement(distance=0.0)


def test_an_added_rule_refuses_by_the_loss_and_comes_after_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of 3 where 2 is admitted; the step of 9 is refused first where only 1 is admitted."""

    def lossy(update: CheckedUpdate) -> Judgement | None:
        loss = update.train_loss
        return None if loss is None or loss <= 2.0 else Judgement(code="out-of-range", reason=f"a loss of {loss:g}")

    def judged(loss: float | None, limit: float) -> str | None:
        blocks = [(floats(9), floats(0))]
        return inspect_update(blocks, shape=shape(1), bounds=bounds(limit), train_loss=loss).code

    monkeypatch.setattr(admission, "UPDATE_RULES", (*admission.UPDATE_RULES, lossy))
    assert [judged(loss, 9.0) for loss in (None, 2.0, 3.0)] == [None, None, "out-of-range"]
    assert judged(3.0, 1.0) == "too-far"


def test_what_was_not_sent_is_not_compared() -> None:
    assert inspect_update([(floats(9), None)], shape=shape(1), bounds=bounds(1.0)) == Judgement(distance=None)


@pytest.mark.parametrize(
    ("distances", "step"),
    [((1.0, 2.0), None), ((1.0, 900.0, 2.0), 2.0), ((4.0, 1.0, 3.0, 2.0), 2.0), ((0.0,) * 5, 0.0), ((), None)],
)
def test_the_typical_step_is_the_lower_median_from_three_members_up(
    distances: tuple[float, ...], step: float | None
) -> None:
    assert typical(distances) == step


def test_the_bound_by_the_initial_model_holds_where_nothing_is_typical_yet() -> None:
    """10 lengths of 3; of a model shorter than 1, 10; a typical limit counts where it is shorter."""
    rules = AdmissionRules()
    assert bounds_of(rules, length=3.0, typical=None).limit == 30.0
    assert bounds_of(rules, length=0.0, typical=None).limit == 10.0
    assert bounds_of(rules, length=3.0, typical=5.0).limit == 5.0
    assert bounds_of(rules, length=3.0, typical=500.0).limit == 30.0


def test_an_updates_shape_follows_from_its_tensors() -> None:
    """Weights of 6, a running mean of 2, a running variance of 2: trained to 6, variances from 8 to 10."""
    tensors = (
        TensorSpec(name="a", shape=(2, 3), part=Part.BODY, trainable=True),
        TensorSpec(name="n.running_mean", shape=(2,), part=Part.BATCH_NORM, trainable=False),
        TensorSpec(name="n.running_var", shape=(2,), part=Part.BATCH_NORM, trainable=False),
    )
    assert shape_of(tensors) == UpdateShape(size=10, trained=6, variances=((8, 10),))


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


def plausible(announced: int = 50, per_position: bool = True, **changes: NDArray[np.generic]) -> Judgement | None:
    stats = judge(moments(**changes))
    assert isinstance(stats, BnStats)
    return implausible(stats, announced=announced, max_statistic=1e6, per_position=per_position)


def test_statistics_of_the_announced_samples_are_plausible() -> None:
    assert plausible() is None
    assert plausible(bn_count=np.asarray(50 * 144)) is None


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (plausible(announced=51), "the hello announced 51"),
        (plausible(bn_count=np.asarray(75)), "a count of 75 from 50 samples"),
        (plausible(bn_count=np.asarray(2**62)), "a count of"),
        (plausible(bn_count=np.asarray(100), per_position=False), "a count of 100"),
        (plausible(bn_mean=np.asarray([3e38, 0.0])), "the limit is 1e+06"),
        (plausible(bn_variance=np.asarray([1.1e12, 0.0])), "the limit is 1e+06"),
    ],
)
def test_statistics_that_are_finite_and_absurd_are_refused(found: Judgement | None, named: str) -> None:
    assert found is not None
    assert found.code == "bad-statistics"
    assert named in found.reason
