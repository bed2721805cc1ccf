"""Claims about noise in updates: no step is longer than the clip, and the noise is as large as it says."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.private_statistics import VARIANCE_FLOOR
from fedap_core.private_updates import noise_deviation, privatise


def silent(_name: str, size: int) -> FloatArray:
    return np.zeros(size)


def model(*values: float) -> dict[str, Float32Array]:
    return {"a": np.array(values[:2], dtype=np.float32), "b": np.array(values[2:], dtype=np.float32).reshape(-1, 1)}


def test_a_long_step_is_scaled_to_the_clip_and_a_short_one_left_alone() -> None:
    """From (1, 1, 0, 0) by (3, 0, 4, 0), of length 5, to length 1: by (0.6, 0, 0.8, 0)."""
    for clip, expected in ((1.0, (1.6, 1.0, 0.8, 0.0)), (5.0, (4.0, 1.0, 4.0, 0.0))):
        update = model(4, 1, 4, 0)
        privatise(update, model(1, 1, 0, 0), clip=clip, noise_multiplier=0.0, noise=silent)
        assert [*update["a"], *update["b"].ravel()] == pytest.approx(expected)


def test_noise_is_twice_the_clip_times_the_multiplier_in_every_value() -> None:
    rng = np.random.default_rng(0)
    update = {"w": np.zeros(40_000, dtype=np.float32)}
    privatise(
        update, {"w": np.zeros_like(update["w"])}, clip=0.5, noise_multiplier=3.0,
        noise=lambda _name, size: rng.standard_normal(size),
    )  # fmt: skip
    assert update["w"].std() == pytest.approx(noise_deviation(0.5, 3.0), rel=0.02) == pytest.approx(3.0, rel=0.02)


def test_blocks_are_named_apart_and_variances_stay_positive() -> None:
    asked: list[str] = []

    def negative(name: str, size: int) -> FloatArray:
        asked.append(name)
        return np.full(size, -1.0)

    update = {"mean": np.zeros(3, dtype=np.float32), "variance": np.ones(2, dtype=np.float32)}
    base = {name: values.copy() for name, values in update.items()}
    privatise(update, base, clip=1.0, noise_multiplier=5.0, noise=negative, variances={"variance"})
    assert update["mean"].tolist() == [-10.0] * 3
    assert update["variance"] == pytest.approx(VARIANCE_FLOOR)
    assert asked == ["mean 0", "variance 0"]


def test_values_that_no_noise_can_bound_are_refused() -> None:
    with pytest.raises(InvalidInput, match="NaN or Inf"):
        privatise(model(np.nan, 0, 0, 0), model(0, 0, 0, 0), clip=1.0, noise_multiplier=1.0, noise=silent)
