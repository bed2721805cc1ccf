"""Claims about a run's tensors on disk: whole or refused, durable before they are named, bounded."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coordinator.decisions.actions import BlobRef, RowRef
from coordinator.record.blobs import checksum_of, describe, read_bytes
from coordinator.record.store import Store
from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from protocol.limits import SLICE_BYTES
from protocol.naming import content_name
from protocol.tensors import TensorSet

REF = BlobRef(member="a", kind="update", round_no=3)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def tensors(values: int = 100) -> TensorSet:
    return TensorSet.of({"w": np.arange(values, dtype=np.float32)})


def kept(store: Store, ref: BlobRef, one: TensorSet) -> bytes:
    data = bytes(one.data or b"")
    store.stage(ref, one)
    store.keep({ref: checksum_of(data)})
    return data


def test_a_kept_blob_is_found_by_another_store_with_its_layout(tmp_path: Path) -> None:
    data = kept(Store(tmp_path), REF, tensors())
    found = Store(tmp_path).blob(REF)
    assert found.layout == tensors().layout
    assert bytes(read_bytes(found.path, 0, found.size_bytes)) == data


def test_what_is_only_staged_is_gone_after_a_restart(tmp_path: Path) -> None:
    Store(tmp_path).stage(REF, tensors())
    assert not Store(tmp_path).is_staged(REF)
    with pytest.raises(InvalidInput):
        Store(tmp_path).blob(REF)


@pytest.mark.parametrize("values", [0, 100, SLICE_BYTES // 4 + 1])
def test_a_difference_is_replaced_by_its_values_and_a_large_one_never_held_in_memory(
    tmp_path: Path, values: int
) -> None:
    store, difference = Store(tmp_path), np.full(values, 0.5, dtype=np.float32)
    store.stage(REF, TensorSet.of({"w": difference}, encoding="f16"))
    full = store.restage(REF, (difference[at : at + 65_536] + 1 for at in range(0, values, 65_536)))
    assert full.encoding == "f32"
    data = read_bytes(full.path, 0, 4 * values) if full.data is None else full.data
    assert bytes(data) == (difference + 1).tobytes()
    assert (full.data is None) == (4 * values > SLICE_BYTES)
    store.keep({REF: checksum_of(data)})
    assert bytes(read_bytes(Store(tmp_path).blob(REF).path, 0, 4 * values)) == bytes(data)


def test_a_difference_whose_values_cannot_be_written_leaves_no_file_of_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.stage(REF, TensorSet.of({"w": np.zeros(SLICE_BYTES // 4 + 1, dtype=np.float32)}, encoding="f16"))
    before = files_in(tmp_path)

    def blocks() -> Iterator[Float32Array]:
        yield np.ones(10, dtype=np.float32)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.restage(REF, blocks())
    assert files_in(tmp_path) == before


def test_discarded_bytes_leave_no_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.stage(REF, tensors())
    store.discard(REF)
    store.discard(REF)
    assert files_in(tmp_path) == []


def test_what_memory_has_no_room_for_goes_by_the_disk_and_comes_back_the_same(tmp_path: Path) -> None:
    """Room for one set of 400 bytes: the second one is a file; when the first is discarded, there is room again."""
    store = Store(tmp_path, held_bytes=500)
    refs = [BlobRef(member=name, kind="update", round_no=0) for name in "abc"]
    data = bytes(tensors().data or b"")
    for ref in refs[:2]:
        store.stage(ref, tensors())
    assert [store.staged(ref).data is None for ref in refs[:2]] == [False, True]
    store.discard(refs[0])
    store.stage(refs[2], tensors())
    assert store.staged(refs[2]).data is not None
    store.keep({ref: checksum_of(data) for ref in refs[1:]})
    for ref in refs[1:]:
        assert bytes(read_bytes(store.blob(ref).path, 0, len(data))) == data
        assert store.blob(ref) == Store(tmp_path, scratch=tmp_path / "other").blob(ref)


@pytest.mark.parametrize("cut", [1, 12, 60])
def test_a_blob_without_its_end_is_refused(tmp_path: Path, cut: int) -> None:
    store = Store(tmp_path)
    kept(store, REF, tensors())
    path = store.blob(REF).path
    os.truncate(path, path.stat().st_size - cut)
    with pytest.raises(InvalidInput, match="a finished file"):
        Store(tmp_path).blob(REF)


def test_an_empty_set_is_a_blob_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept(store, REF, TensorSet.of({}))
    assert store.blob(REF).size_bytes == 0


def test_collection_keeps_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    refs = [BlobRef(member=name, kind="update", round_no=number) for name in "ab" for number in (1, 2)]
    for ref in refs:
        kept(store, ref, tensors())
    row, together = RowRef(member="a", round_no=2, alone=True), RowRef(member="a", round_no=2)
    for path in store.expect_rows((row, together)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    freed = store.collect(frozenset({refs[1]}), frozenset({row}))
    assert freed == 3 * store.blob(refs[1]).path.stat().st_size + 5
    assert (store.row_path(row).exists(), store.row_path(together).exists()) == (True, False)
    assert [path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == ["a"]


def test_a_transfer_becomes_the_blob_it_announced(tmp_path: Path) -> None:
    big = tensors(SLICE_BYTES // 4 + 7)
    data = bytes(big.data or b"")
    offered = TensorSet(layout=big.layout, data=None, transfer=content_name(data))
    store = Store(tmp_path)
    assert list(store.incoming.held("a", str(offered.transfer), len(data))) == []
    for offset in range(0, len(data), SLICE_BYTES):
        store.incoming.take("a", str(offered.transfer), offset, data[offset : offset + SLICE_BYTES])
    store.stage(REF, offered)
    store.keep({REF: checksum_of(data)})
    found = store.blob(REF)
    assert bytes(read_bytes(found.path, 0, found.size_bytes)) == data
    assert list((tmp_path / "incoming").iterdir()) == []


def test_reading_beside_a_run_writes_nothing_into_its_folder(tmp_path: Path) -> None:
    kept(Store(tmp_path / "run"), REF, tensors())
    before = sorted((tmp_path / "run").rglob("*"))
    reader = Store(tmp_path / "run", scratch=tmp_path / "scratch")
    assert describe(reader.blob(REF).path).layout == tensors().layout
    assert sorted((tmp_path / "run").rglob("*")) == before


def test_the_file_of_a_useless_blob_becomes_that_of_the_next_one(tmp_path: Path) -> None:
    """Whatever its length was: a longer set, a shorter one, and one of the same length are read back as they came."""
    store = Store(tmp_path)
    refs = [BlobRef(member="a", kind="update", round_no=number) for number in range(4)]
    files = set()
    for ref, values in zip(refs, (100, 3000, 10, 10), strict=True):
        data = kept(store, ref, tensors(values))
        files.add(store.blob(ref).path.stat().st_ino)
        found = Store(tmp_path, scratch=tmp_path / "other").blob(ref)
        assert bytes(read_bytes(found.path, 0, found.size_bytes)) == data
        assert found.layout == tensors(values).layout
        store.collect(frozenset(), frozenset())
        assert list((tmp_path / "blobs").rglob("*/*/*")) == []
    assert len(files) == 1


def test_the_file_of_a_useless_large_report_takes_the_next_one(tmp_path: Path) -> None:
    store, files = Store(tmp_path), set()
    for number in range(3):
        big = TensorSet.of({"w": np.full(SLICE_BYTES // 4 + 7, number, dtype=np.float32)})
        data, ref = bytes(big.data or b""), BlobRef(member="a", kind="update", round_no=number)
        assert list(store.incoming.held("a", str(big.transfer), len(data))) == []
        for offset in range(0, len(data), SLICE_BYTES):
            store.incoming.take("a", str(big.transfer), offset, data[offset : offset + SLICE_BYTES])
        store.stage(ref, TensorSet(layout=big.layout, data=None, transfer=big.transfer))
        store.keep({ref: checksum_of(data)})
        found = describe(store.blob(ref).path)
        assert bytes(read_bytes(found.path, 0, found.size_bytes)) == data
        files.add(found.path.stat().st_ino)
        size = found.path.stat().st_size
        assert store.collect(frozenset(), frozenset()) == size
    assert len(files) == 1


def test_spare_files_are_no_more_than_the_last_collection_freed_and_go_with_the_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    refs = [BlobRef(member=name, kind="update", round_no=0) for name in "abc"]
    for ref in refs:
        kept(store, ref, tensors())
    store.collect(frozenset(refs[:1]), frozenset())
    assert len(list((tmp_path / "spare").iterdir())) == 2
    store.collect(frozenset(), frozenset())
    assert len(list((tmp_path / "spare").iterdir())) == 1
    Store(tmp_path)
    assert files_in(tmp_path) == []
    kept(store := Store(tmp_path), REF, tensors())
    store.collect(frozenset(), frozenset())
    store.close()
    assert files_in(tmp_path) == []
