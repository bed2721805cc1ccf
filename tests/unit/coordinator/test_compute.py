"""Claims about the computing side: jobs in order, errors handed back, files mixed to the bits of `mix`."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from coordinator.computing.jobs import ComputeThread
from coordinator.computing.rows import OwnUpdate, Product, RowForms, mix_files, mix_in_memory
from coordinator.record.blobs import OpenFiles, StoredSet, checksum_of, finish
from fedap_core.aggregation import TILE_COLUMNS, mix
from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from fedap_core.measures import measured_channels
from fedap_core.robust import Robustness
from fedap_core.strategies import Measure
from protocol.encodings import Encoding
from protocol.limits import SLICE_BYTES
from protocol.naming import content_name
from protocol.tensors import Layout, TensorSet, WireTensor
from tests.support.few_files import few_descriptors
from tests.support.tiny_models import tiny_model

WAIT_S = 30.0


def stored(folder: Path, name: str, values: Float32Array, encoding: Encoding = "f32") -> StoredSet:
    layout = Layout((WireTensor(name="w", dtype="float32", shape=values.shape),))
    data = bytes(TensorSet.of_flat(layout, values, encoding).data or b"")
    (folder / name).write_bytes(data)
    return finish(folder / name, layout, encoding, checksum_of(data))


def case(folder: Path, parameters: int, members: int = 4) -> tuple[list[StoredSet], list[Float32Array]]:
    rng = np.random.default_rng(parameters)
    values = [rng.standard_normal(parameters, dtype=np.float32) for _ in range(members)]
    return [stored(folder, f"blob-{n}", one) for n, one in enumerate(values)], values


def test_jobs_are_done_in_order_and_each_end_wakes() -> None:
    woken = threading.Semaphore(0)
    compute: ComputeThread[int] = ComputeThread(woken.release, lambda: 0.0)
    for number in range(3):
        compute.submit(number, lambda number=number: number * 10)  # type: ignore[misc]
    assert all(woken.acquire(timeout=WAIT_S) for _ in range(3))
    assert [(done.key, done.answer) for done in compute.finished()] == [(0, 0), (1, 10), (2, 20)]
    assert compute.finished() == []
    compute.close()


def test_a_failing_job_hands_back_its_error_and_the_next_one_is_done() -> None:
    compute: ComputeThread[str] = ComputeThread(lambda: None, lambda: 0.0)
    compute.submit("bad", lambda: [].pop())
    compute.submit("good", lambda: "done")
    compute.close()
    bad, good = compute.finished()
    assert isinstance(bad.error, IndexError)
    assert (good.answer, good.error) == ("done", None)


@pytest.mark.parametrize("parameters", [0, 5, TILE_COLUMNS + 3])
def test_files_are_mixed_to_the_same_bits_as_arrays_in_files_and_in_memory(tmp_path: Path, parameters: int) -> None:
    blobs, values = case(tmp_path, parameters)
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    paths = [tmp_path / "rows" / str(n) for n in range(4)]
    forms = RowForms.values(blobs[0].layout, "f32", 4)
    rows = mix_files(Product.plain(weights, blobs[0].layout), blobs, paths, forms)
    held = mix_in_memory(Product.plain(weights, blobs[0].layout), blobs, forms)
    mix(weights, values, values)
    assert [bytes(row.read(0, row.size_bytes)) for row in held] == [one.tobytes() for one in values]
    assert [path.read_bytes() for path in paths] == [one.tobytes() for one in values]
    assert [row.transfer for row in rows] == [None] * 4


def test_a_row_too_large_for_a_message_is_named_by_its_content(tmp_path: Path) -> None:
    blobs, _ = case(tmp_path, SLICE_BYTES // 4 + 1, members=2)
    forms = RowForms.values(blobs[0].layout, "f32", 1)
    (row,) = mix_files(Product.plain(np.array([[0.25, 0.75]]), forms.layout), blobs, [tmp_path / "row"], forms)
    assert row.transfer == content_name((tmp_path / "row").read_bytes())


def test_a_row_is_what_its_receiver_makes_of_the_difference_to_its_own_update(tmp_path: Path) -> None:
    """Two receivers with an own update, and one without, which gets values; the same in files and in memory."""
    blobs, values = case(tmp_path, TILE_COLUMNS + 3)
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    own = (OwnUpdate(round_no=7, stored=blobs[2]), OwnUpdate(round_no=6, stored=blobs[0]), None)
    forms = RowForms(layout=blobs[0].layout, encoding="int8", difference="coarse", own=own)
    product = Product.plain(weights, forms.layout)
    paths = [tmp_path / "rows" / str(n) for n in range(3)]
    in_memory, in_files = mix_in_memory(product, blobs, forms), mix_files(product, blobs, paths, forms)
    assert sum(row.held_bytes for row in in_memory) == forms.held_bytes
    assert sum(row.held_bytes for row in in_files) == 2 * forms.layout.size_bytes("coarse")  # only the differences
    for rows in (in_memory, in_files):
        assert [row.encoding for row in rows] == ["f32", "f32", "int8"]
        assert rows[2].difference is None
        for row, base, round_no in ((rows[0], values[2], 7), (rows[1], values[0], 6)):
            assert row.difference is not None
            assert row.difference.base == round_no
            assert bytes(row.read(0, row.size_bytes)) == (base + row.difference.tensors.flat()).tobytes()


def test_half_precision_is_read_and_written_as_such(tmp_path: Path) -> None:
    """(1/2) * 1 + (1/2) * 0.5 = 0.75 in every value: exact in f16, two bytes each."""
    ones, halves = np.full(10, 1.0, dtype=np.float32), np.full(10, 0.5, dtype=np.float32)
    blobs = [stored(tmp_path, "one", ones, "f16"), stored(tmp_path, "half", halves, "f16")]
    forms = RowForms.values(blobs[0].layout, "f16", 1)
    mix_files(Product.plain(np.array([[0.5, 0.5]]), forms.layout), blobs, [tmp_path / "row"], forms)
    assert np.frombuffer((tmp_path / "row").read_bytes(), dtype=np.float16).tolist() == [0.75] * 10


def test_a_byte_that_the_disk_changed_spoils_the_mix_not_the_model(tmp_path: Path) -> None:
    blobs, _ = case(tmp_path, 1000)
    data = bytearray(blobs[2].path.read_bytes())
    data[1234] ^= 1
    blobs[2].path.write_bytes(data)
    forms = RowForms.values(blobs[0].layout, "f32", 1)
    with pytest.raises(InvalidInput, match=r"blob-2.*The disk has changed them"):
        mix_files(Product.plain(np.full((1, 4), 0.25), forms.layout), blobs, [tmp_path / "row"], forms)


def test_statistics_are_expected_of_the_layers_in_the_model_file() -> None:
    spec = tiny_model(channels=5).spec
    assert measured_channels(spec, Measure.BN_INPUTS) == {"bn": 5}
    assert measured_channels(spec, Measure.RUNNING) == {"bn": 5}
    assert measured_channels(spec, Measure.HEAD_INPUTS) == {"head": 5}


@pytest.mark.parametrize("rule", ["none", "limit"])
def test_a_mix_of_many_large_updates_keeps_few_files_open(tmp_path: Path, rule: str) -> None:
    """Forty givers and forty rows as differences to own updates, in files, and two descriptors besides those that stay
    open; `limit` reads all givers twice."""
    blobs, _ = case(tmp_path, 100, members=40)
    own = tuple(OwnUpdate(round_no=3, stored=blob) for blob in blobs)
    forms = RowForms(layout=blobs[0].layout, encoding="int8", difference="coarse", own=own)
    plain = Product.plain(np.full((40, 40), 1 / 40), forms.layout)
    product = Product(mixture=plain.mixture, rule=Robustness(rule=rule))
    paths = [tmp_path / "rows" / str(n) for n in range(40)]
    with few_descriptors(OpenFiles.MOST + 2):
        rows = mix_files(product, blobs, paths, forms)
    assert [path.stat().st_size for path in paths] == [400] * 40
    assert all(row.difference is not None for row in rows)
