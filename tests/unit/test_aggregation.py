"""Claims about averaging weights: the numbers of eq. 2, tiles, working in place, threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedap_core.aggregation import TILE_COLUMNS, mix, mix_tiles
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.errors import InvalidInput

_DIGEST_IN_A_NEW_PROCESS = "from tests.unit.test_aggregation import digest_of_a_mix; print(digest_of_a_mix())"


def random_case(members: int, parameters: int, *, seed: int = 0) -> tuple[FloatArray, list[Float32Array]]:
    rng = np.random.default_rng(seed)
    mixing = rng.dirichlet(np.ones(members), size=members)
    return mixing, [rng.standard_normal(parameters, dtype=np.float32) for _ in range(members)]


def mixed(mixing: FloatArray, updates: list[Float32Array]) -> Float32Array:
    out = [np.full_like(updates[0], np.nan) for _ in range(len(mixing))]
    mix(mixing, updates, out)
    return np.stack(out)


def digest_of_a_mix() -> str:
    mixing, updates = random_case(20, TILE_COLUMNS + 1_234)
    return hashlib.sha256(mixed(mixing, updates).tobytes()).hexdigest()


def test_every_receiver_gets_its_weighted_sum() -> None:
    """Rows (1/2, 1/4, 1/4) and (0, 1, 0) of (4, 8), (0, 4), (8, 0): 2 + 0 + 2 = 4, 4 + 1 + 0 = 5; and (0, 4)."""
    updates = [np.array(values, dtype=np.float32) for values in ([4, 8], [0, 4], [8, 0])]
    found = mixed(np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]), updates)
    assert found.tolist() == [[4.0, 5.0], [0.0, 4.0]]


def test_lone_member_gets_its_own_bits_back() -> None:
    _, updates = random_case(1, 1_000)
    assert mixed(np.ones((1, 1)), updates).tobytes() == updates[0].tobytes()


@pytest.mark.parametrize("parameters", [1, 7, TILE_COLUMNS - 1, TILE_COLUMNS, TILE_COLUMNS + 1, 2 * TILE_COLUMNS + 5])
def test_tiles_cover_every_parameter_once(parameters: int) -> None:
    mixing, updates = random_case(3, parameters)
    expected = mixing @ np.stack(updates).astype(np.float64)
    np.testing.assert_allclose(mixed(mixing, updates), expected, rtol=0, atol=2e-6)


def test_bits_of_a_parameter_do_not_depend_on_how_many_follow() -> None:
    mixing, updates = random_case(5, TILE_COLUMNS + 100)
    whole = mixed(mixing, updates)
    for parameters in (33, TILE_COLUMNS, TILE_COLUMNS + 7):
        prefix = mixed(mixing, [update[:parameters] for update in updates])
        assert prefix.tobytes() == whole[:, :parameters].tobytes()


def test_in_place_gives_the_same_bits() -> None:
    mixing, updates = random_case(7, TILE_COLUMNS + 321)
    expected = mixed(mixing, updates)
    mix(mixing, updates, updates)
    assert np.stack(updates).tobytes() == expected.tobytes()


def test_rows_outside_memory_give_the_same_bits() -> None:
    mixing, updates = random_case(4, 2 * TILE_COLUMNS + 77)
    stored = [bytearray(update.tobytes()) for update in updates]
    seen: list[tuple[int, int]] = []

    def read(start: int, tile: Float32Array) -> None:
        seen.append((start, tile.shape[1]))
        for row, held in zip(tile, stored, strict=True):
            row[:] = np.frombuffer(held, dtype=np.float32, count=row.size, offset=4 * start)

    def write(start: int, mixed_tile: Float32Array) -> None:
        for row, held in zip(mixed_tile, stored, strict=True):
            held[4 * start : 4 * (start + row.size)] = row.tobytes()

    mix_tiles(mixing, updates[0].size, read=read, write=write)
    assert b"".join(stored) == mixed(mixing, updates).tobytes()
    assert seen == [(0, TILE_COLUMNS), (TILE_COLUMNS, TILE_COLUMNS), (2 * TILE_COLUMNS, 77)]


def test_updates_stay_untouched_out_of_place() -> None:
    mixing, updates = random_case(3, 1_000)
    before = np.stack(updates)
    mixed(mixing, updates)
    assert np.stack(updates).tobytes() == before.tobytes()


def test_nothing_to_mix_is_legal() -> None:
    mixing, updates = random_case(3, 0)
    assert mixed(mixing, updates).shape == (3, 0)


def test_bits_do_not_depend_on_threads_and_the_setting_of_the_process_survives() -> None:
    reference = digest_of_a_mix()
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            before = threadpool_info()
            assert digest_of_a_mix() == reference
            assert threadpool_info() == before


@pytest.mark.parametrize("threads", ["1", "4"])
def test_bits_do_not_depend_on_the_threads_a_process_starts_with(threads: str) -> None:
    settings = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    command = [sys.executable, "-c", _DIGEST_IN_A_NEW_PROCESS]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == digest_of_a_mix()


def test_weights_that_do_not_sum_to_one_are_refused() -> None:
    _, updates = random_case(2, 4)
    with pytest.raises(InvalidInput, match="row 1"):
        mixed(np.array([[0.5, 0.5], [0.5, 0.4]]), updates)


def test_matrix_must_fit_receivers_and_givers() -> None:
    mixing, updates = random_case(3, 4)
    with pytest.raises(InvalidInput, match=r"mixing: got shape \(3, 3\), expected \(3, 2\)"):
        mix(mixing, updates[:2], updates)


@pytest.mark.parametrize("wrong", [np.zeros(4), np.zeros(5, dtype=np.float32), np.zeros((2, 2), dtype=np.float32)])
def test_arrays_of_another_size_or_type_are_refused_by_position(wrong: Float32Array) -> None:
    mixing, updates = random_case(2, 4)
    with pytest.raises(InvalidInput, match=r"^updates\[1\]: "):
        mix(mixing, [updates[0], wrong], updates)
    with pytest.raises(InvalidInput, match=r"^out\[0\]: "):
        mix(mixing, updates, [wrong, updates[1]])
