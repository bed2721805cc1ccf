"""Laws of averaging: equal to a float64 reference, in place or not, whatever the size and the threads."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fedap_core.aggregation import TILE_COLUMNS, mix
from fedap_core.arrays import Float32Array, FloatArray

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 50) | st.integers(TILE_COLUMNS - 3, TILE_COLUMNS + 3)

FLOAT32_ROUNDING = 2.0**-24


def case(seed: int, rows: int, members: int, parameters: int) -> tuple[FloatArray, list[Float32Array]]:
    """Weights with zeros among them, and updates of very different size."""
    rng = np.random.default_rng(seed)
    mixing = rng.dirichlet(np.full(members, 0.3), size=rows)
    scales = 10.0 ** rng.integers(-6, 7, size=members)
    return mixing, [(rng.standard_normal(parameters) * scale).astype(np.float32) for scale in scales]


def empty(rows: int, parameters: int) -> list[Float32Array]:
    return [np.full(parameters, np.nan, dtype=np.float32) for _ in range(rows)]


@given(seed=seeds, rows=st.integers(1, 6), members=st.integers(1, 6), parameters=sizes)
@settings(max_examples=60, deadline=None)
def test_mix_is_the_float64_product_within_float32_rounding(
    seed: int, rows: int, members: int, parameters: int
) -> None:
    """One rounding per weight and per product, one per addition: (m + 2) roundings of sum_j w_ij |x_j| at most."""
    mixing, updates = case(seed, rows, members, parameters)
    out = empty(rows, parameters)
    mix(mixing, updates, out)
    exact = np.stack(updates).astype(np.float64)
    allowed = (members + 2) * FLOAT32_ROUNDING * (mixing @ np.abs(exact))
    assert (np.abs(np.stack(out) - mixing @ exact) <= allowed + np.finfo(np.float32).tiny).all()


@given(seed=seeds, members=st.integers(1, 6), parameters=sizes)
@settings(max_examples=40, deadline=None)
def test_in_place_equals_out_of_place_bit_for_bit(seed: int, members: int, parameters: int) -> None:
    mixing, updates = case(seed, members, members, parameters)
    out = empty(members, parameters)
    mix(mixing, updates, out)
    mix(mixing, updates, updates)
    assert np.stack(updates).tobytes() == np.stack(out).tobytes()


@given(seed=seeds, members=st.integers(1, 24), parameters=st.integers(1, 2 * TILE_COLUMNS))
@settings(max_examples=15, deadline=None)
def test_threads_of_the_process_change_no_bit(seed: int, members: int, parameters: int) -> None:
    mixing, updates = case(seed, members, members, parameters)
    results = set()
    for threads in (1, 2, 3):
        out = empty(members, parameters)
        with threadpool_limits(limits=threads, user_api="blas"):
            mix(mixing, updates, out)
        results.add(np.stack(out).tobytes())
    assert len(results) == 1


@given(seed=seeds, members=st.integers(1, 6), parameters=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_identity_returns_every_update_unchanged(seed: int, members: int, parameters: int) -> None:
    _, updates = case(seed, members, members, parameters)
    out = empty(members, parameters)
    mix(np.eye(members), updates, out)
    assert np.stack(out).tobytes() == np.stack(updates).tobytes()


@given(seed=seeds, members=st.integers(1, 6), parameters=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_every_result_lies_between_the_smallest_and_the_largest_update(
    seed: int, members: int, parameters: int
) -> None:
    mixing, updates = case(seed, members, members, parameters)
    out = empty(members, parameters)
    mix(mixing, updates, out)
    stacked = np.stack(updates)
    slack = 1e-5 * np.abs(stacked).max(axis=0)
    assert (np.stack(out) >= stacked.min(axis=0) - slack).all()
    assert (np.stack(out) <= stacked.max(axis=0) + slack).all()
