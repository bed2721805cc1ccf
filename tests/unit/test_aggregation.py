"""Claims about averaging weights: the numbers of eq. 2, tiles, working in place, threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedap_core import aggregation
from fedap_core.aggregation import TILE_COLUMNS, mix, mix_tiles, tile_columns
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


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("where", ["rows of one table", "rows of a wider table", "backwards", "each on its own"])
def test_bits_depend_neither_on_threads_nor_on_where_the_rows_lie(where: str, threads: int) -> None:
    mixing, updates = random_case(5, 2 * TILE_COLUMNS + 99)
    expected = mixed(mixing, updates)
    table = np.zeros((9, 2 * TILE_COLUMNS + 200), dtype=np.float32)
    rows = {
        "rows of one table": [row[: updates[0].size] for row in np.zeros((5, updates[0].size), dtype=np.float32)],
        "rows of a wider table": [row[101:] for row in table[:5]],
        "backwards": [row[101:] for row in table[4::-1]],
        "each on its own": [table[number, 101:] for number in (0, 1, 3, 4, 8)],
    }[where]
    for row, update in zip(rows, updates, strict=True):
        row[:] = update
    mix(mixing, rows, rows, threads=threads)
    assert np.stack(rows).tobytes() == expected.tobytes()
    assert not table[:, :101].any()


def test_rows_of_one_table_are_written_where_they_are_and_others_are_not_mistaken_for_one() -> None:
    table = np.zeros((4, 12), dtype=np.float32)
    whole = aggregation._as_table(list(table[:, 2:]), writeable=True)
    assert whole is not None
    whole[:] = 1.0
    assert table[:, 2:].all()
    assert not table[:, :2].any()
    assert aggregation._as_table([table[0]]) is not None
    for apart in ([table[2], table[1]], [table[0], table[1], table[3]], [table[0, ::2], table[1, ::2]]):
        assert aggregation._as_table(apart) is None
    table.flags.writeable = False
    assert aggregation._as_table(list(table)) is not None
    assert aggregation._as_table(list(table), writeable=True) is None


def test_bits_are_those_of_one_product_over_a_whole_tile_padded_with_zeros() -> None:
    """What stored results were computed with: the distance of rows in scratch and reading all at once do not show."""
    mixing, updates = random_case(20, TILE_COLUMNS + 1_234)
    whole = np.zeros((20, 2 * TILE_COLUMNS), dtype=np.float32)
    whole[:, : updates[0].size] = np.stack(updates)
    with threadpool_limits(limits=1, user_api="blas"):
        tiles = [
            np.matmul(mixing.astype(np.float32), np.ascontiguousarray(whole[:, start : start + TILE_COLUMNS]))
            for start in (0, TILE_COLUMNS)
        ]
    expected = np.concatenate(tiles, axis=1)[:, : updates[0].size]
    assert mixed(mixing, updates).tobytes() == expected.tobytes()
    table = np.stack(updates)
    mix(mixing, list(table), list(table))
    assert table.tobytes() == expected.tobytes()


def test_rows_that_may_only_be_read_are_mixed() -> None:
    mixing, updates = random_case(4, 500)
    table = np.stack(updates)
    table.flags.writeable = False
    assert mixed(mixing, list(table)).tobytes() == mixed(mixing, updates).tobytes()


def test_scratch_is_kept_for_the_next_mix_of_that_shape_and_large_scratch_is_not() -> None:
    """200 receivers of 2 givers: 202 tiles of 256 KiB, more than the 32 MiB that may be kept."""
    mixed(*random_case(6, 10))
    (kept,) = aggregation._spare
    again = mixed(*random_case(6, 10))
    assert aggregation._spare == [kept]
    mixed(np.full((200, 2), 0.5), random_case(2, 10)[1])
    assert aggregation._spare == []
    assert mixed(*random_case(6, 10)).tobytes() == again.tobytes()


def test_a_mix_within_a_mix_gets_scratch_of_its_own() -> None:
    """The inner one has the shape of the outer one and runs between its reading and its writing."""
    mixing, updates = random_case(3, 50)
    others = random_case(3, 50, seed=1)[1]
    found = np.zeros((3, 50), dtype=np.float32)

    def read(start: int, tile: Float32Array) -> None:
        tile[:] = np.stack(updates)[:, start : start + tile.shape[1]]
        mixed(mixing, others)

    def write(_start: int, tile: Float32Array) -> None:
        found[:] = tile

    mix_tiles(mixing, 50, read=read, write=write)
    assert found.tobytes() == mixed(mixing, updates).tobytes()


@pytest.mark.parametrize("failing", ["read", "write"])
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_what_fails_in_reading_or_writing_comes_out(failing: str, at: int, threads: int) -> None:
    """Nothing behind it is written, and no thread waits for ever. What stands before it may stay unwritten where
    another thread has read it: the result is refused as a whole."""
    written: list[int] = []

    def read(start: int, _tile: Float32Array) -> None:
        if failing == "read" and start == at * TILE_COLUMNS:
            raise OSError("a bad disk")

    def write(start: int, _tile: Float32Array) -> None:
        if failing == "write" and start == at * TILE_COLUMNS:
            raise OSError("a bad disk")
        written.append(start)

    with pytest.raises(OSError, match="a bad disk"):
        mix_tiles(np.eye(2), 12 * TILE_COLUMNS, read=read, write=write, threads=threads)
    before = [number * TILE_COLUMNS for number in range(at)]
    assert written == (before if failing == "write" or threads == 1 else before[: len(written)])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_product_that_fails_comes_out(threads: int) -> None:
    """0 * inf warns, and a warning is an error here."""

    def read(_start: int, tile: Float32Array) -> None:
        tile[:] = np.inf

    with pytest.raises(RuntimeWarning, match="invalid value"):
        mix_tiles(np.eye(2), 12 * TILE_COLUMNS, read=read, write=lambda _start, _tile: None, threads=threads)


def test_another_tile_is_multiplied_while_one_is_written() -> None:
    """Whoever writes the first tile waits until the second has been read: by the other thread, then."""
    was_read = [threading.Event() for _ in range(3)]
    written: list[int] = []

    def read(start: int, _tile: Float32Array) -> None:
        was_read[start // TILE_COLUMNS].set()

    def write(start: int, _tile: Float32Array) -> None:
        if start == 0:
            assert was_read[1].wait(timeout=60)
        written.append(start)

    mix_tiles(np.eye(2), 3 * TILE_COLUMNS, read=read, write=write, threads=2)
    assert written == [0, TILE_COLUMNS, 2 * TILE_COLUMNS]


def test_less_than_one_thread_is_refused() -> None:
    mixing, updates = random_case(2, 4)
    with pytest.raises(InvalidInput, match="threads: got 0"):
        mix(mixing, updates, updates, threads=0)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_outside_memory_give_the_same_bits(threads: int) -> None:
    mixing, updates = random_case(4, 2 * TILE_COLUMNS + 77)
    stored = [bytearray(update.tobytes()) for update in updates]
    seen: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []

    def read(start: int, tile: Float32Array) -> None:
        seen.append((start, tile.shape[1]))
        for row, held in zip(tile, stored, strict=True):
            row[:] = np.frombuffer(held, dtype=np.float32, count=row.size, offset=4 * start)

    def write(start: int, mixed_tile: Float32Array) -> None:
        written.append((start, mixed_tile.shape[1]))
        for row, held in zip(mixed_tile, stored, strict=True):
            held[4 * start : 4 * (start + row.size)] = row.tobytes()

    mix_tiles(mixing, updates[0].size, read=read, write=write, threads=threads)
    assert b"".join(stored) == mixed(mixing, updates).tobytes()
    assert seen == written == [(0, TILE_COLUMNS), (TILE_COLUMNS, TILE_COLUMNS), (2 * TILE_COLUMNS, 77)]


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


def test_scratch_of_many_members_does_not_grow_with_them() -> None:
    """64 members share 64 * 65,536 values; of 1,000 each has 4,194 of them, rounded down to 4 * 1,024."""
    assert [tile_columns(members) for members in (1, 64, 128, 1_000)] == [65_536, 65_536, 32_768, 4_096]
    assert tile_columns(1_000_000) == 1_024


@pytest.mark.parametrize("threads", [1, 3])
def test_many_members_are_mixed_alike_in_memory_and_by_tiles(threads: int) -> None:
    """130 members: tiles of 31,744 columns; rows of W sum to 1, so float32 errs by about 1e-6."""
    mixing, updates = random_case(130, 2 * tile_columns(130) + 77)
    expected = mixing @ np.array(updates, dtype=np.float64)
    in_memory = np.empty((130, len(updates[0])), dtype=np.float32)
    by_tiles = np.empty_like(in_memory)
    mix(mixing, updates, list(in_memory), threads=threads)

    def read(start: int, tile: Float32Array) -> None:
        tile[:] = [update[start : start + tile.shape[1]] for update in updates]

    def write(start: int, mixed: Float32Array) -> None:
        by_tiles[:, start : start + mixed.shape[1]] = mixed

    mix_tiles(mixing, len(updates[0]), read=read, write=write, threads=threads)
    assert np.array_equal(in_memory, by_tiles)
    np.testing.assert_allclose(in_memory, expected, atol=1e-5)
