"""Claims about slices on their way into files: in order, without gaps, bounded, and what failed is told."""

from __future__ import annotations

import os
import struct
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from coordinator.record.disk import ReusableFiles
from coordinator.record.incoming import Incoming, JobQueue
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import NAME_DIGITS, slice_digest

NAME = "0" * NAME_DIGITS
WAIT_S = 30.0


def begun(folder: Path, *sizes: int) -> Incoming:
    """With an empty transfer of each of these sizes from member a, named after its place."""
    incoming = Incoming(folder, ReusableFiles(folder / "spare"))
    for number, size in enumerate(sizes):
        assert list(incoming.held("a", str(number) * NAME_DIGITS, size)) == []
    return incoming


def held(folder: Path, size: int) -> list[bytes]:
    """What another process would find of the first transfer."""
    return [bytes(piece) for piece in Incoming(folder, ReusableFiles(folder / "spare")).held("a", NAME, size)]


def test_slices_of_an_earlier_process_are_handed_back_whole_and_in_order(tmp_path: Path) -> None:
    """Two slices and a half are here; the half is dropped, and so would be a complete last one: it is fetched anew."""
    first, second, size = os.urandom(SLICE_BYTES), os.urandom(SLICE_BYTES), 3 * SLICE_BYTES
    incoming = begun(tmp_path, size)
    for offset, piece in ((0, first), (SLICE_BYTES, second), (2 * SLICE_BYTES, first[: SLICE_BYTES // 2])):
        incoming.take("a", NAME, offset, piece)
    incoming.settle()
    assert held(tmp_path, size) == [first, second]
    assert held(tmp_path, size) == [first, second]
    assert held(tmp_path, 2 * SLICE_BYTES) == []  # another payload: nothing is noted at its end


def test_a_payload_that_lacks_only_its_last_slice_does_not_begin_complete(tmp_path: Path) -> None:
    piece = os.urandom(SLICE_BYTES)
    incoming = begun(tmp_path, 2 * SLICE_BYTES)
    for offset in (0, SLICE_BYTES):
        incoming.take("a", NAME, offset, piece)
    incoming.settle()
    assert held(tmp_path, 2 * SLICE_BYTES) == [piece]


def test_only_named_half_way_transfers_survive(tmp_path: Path) -> None:
    incoming = begun(tmp_path, 1, 1)
    assert list(incoming.held("a.b", NAME, 1)) == []
    assert not incoming.drop("a", keep=frozenset({"1" * NAME_DIGITS}))
    assert {path.name[:5] for path in tmp_path.iterdir()} == {"a~111", "a.b~0"}


def test_dropping_reports_slices_that_an_earlier_process_left(tmp_path: Path) -> None:
    """After a loss of power a file may hold other bytes than it says: that is no fault of who sent them."""
    incoming = begun(tmp_path, 2 * SLICE_BYTES)
    incoming.take("a", NAME, 0, bytes(SLICE_BYTES))
    assert len(list(incoming.held("a", NAME, 2 * SLICE_BYTES))) == 1
    later = Incoming(tmp_path, ReusableFiles(tmp_path / "spare"))
    assert len(list(later.held("a", NAME, 2 * SLICE_BYTES))) == 1
    assert later.drop("a")
    assert not incoming.drop("a")


def test_a_file_that_held_something_else_is_written_over_and_begins_empty(tmp_path: Path) -> None:
    """The old one is longer, and says by chance that all of it is held."""
    size, old = SLICE_BYTES + 5, tmp_path / "old"
    old.write_bytes(struct.pack("<8sQ", b"fedapcut", size).join((b"o" * size, b"o" * 100)))
    reusable = ReusableFiles(tmp_path / "spare")
    reusable.put([str(old)])
    assert reusable.size_bytes() == size + 116
    incoming, place = Incoming(tmp_path, reusable), tmp_path / "whole"
    assert list(incoming.held("a", NAME, size)) == []
    assert reusable.size_bytes() == 0
    number = (tmp_path / f"a~{NAME}").stat().st_ino
    incoming.take("a", NAME, 0, b"n" * SLICE_BYTES)
    incoming.take("a", NAME, SLICE_BYTES, b"n" * 5)
    incoming.hand_over("a", NAME, place)
    assert (place.stat().st_ino, place.read_bytes()[:size]) == (number, b"n" * size)


def test_what_is_handed_over_is_complete(tmp_path: Path) -> None:
    incoming, pieces = begun(tmp_path, 20_000), [bytes([number]) * 1000 for number in range(20)]
    for number, piece in enumerate(pieces):
        incoming.take("a", NAME, number * 1000, piece)
    incoming.hand_over("a", NAME, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes()[:20_000] == b"".join(pieces)


def test_after_a_write_that_failed_nothing_is_written_and_it_is_reported_once(tmp_path: Path) -> None:
    """A folder stands where the file should be, and is gone before the second slice could be written: without the
    first, the second would be a file with a gap."""
    incoming = begun(tmp_path, 11)
    path = tmp_path / f"a~{NAME}"
    path.unlink()
    path.mkdir()
    incoming.take("a", NAME, 0, b"first")
    incoming.settle()
    path.rmdir()
    path.touch()
    with pytest.raises(IsADirectoryError):
        incoming.take("a", NAME, 5, b"second")
    assert path.read_bytes() == b""
    assert list(incoming.held("a", NAME, 5)) == []
    incoming.take("a", NAME, 0, b"first")
    incoming.hand_over("a", NAME, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes()[:5] == b"first"


def test_a_payload_whose_last_write_failed_is_not_handed_over(tmp_path: Path) -> None:
    incoming = begun(tmp_path, 9)
    (tmp_path / f"a~{NAME}").unlink()
    incoming.take("a", NAME, 0, b"all of it")
    with pytest.raises(FileNotFoundError):
        incoming.hand_over("a", NAME, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_digests_made_beside_are_those_of_the_slices(tmp_path: Path) -> None:
    incoming, pieces = begun(tmp_path), [os.urandom(1000) for _ in range(3 * WINDOW_SLICES)]
    digests = [incoming.digest(piece) for piece in pieces]
    assert [digest() for digest in digests] == [slice_digest(piece) for piece in pieces]


def test_who_is_a_window_ahead_of_a_lane_waits() -> None:
    """The first job is done when a window of them has been given; so each is done while at most a window is ahead."""
    lane, full, given, seen = JobQueue("test"), threading.Event(), list[Future[None]](), list[int]()
    block = bytes(1 << 20)

    def job() -> None:
        assert full.wait(WAIT_S)
        slice_digest(block)  # something to do, so that an impatient giver would be far ahead
        seen.append(len(given))

    for number in range(50):
        given.append(lane.submit(job))
        if number + 1 == WINDOW_SLICES:
            full.set()
    lane.settle()
    assert [future.result(WAIT_S) for future in given] == [None] * 50
    assert all(count <= number + WINDOW_SLICES for number, count in enumerate(seen))
