"""Claims about slices on their way into files: in order, without gaps, bounded, and what failed is told."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from coordinator.incoming import Incoming, Lane
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import slice_digest

NAME = "f" * 64
WAIT_S = 30.0


def test_slices_of_an_earlier_life_are_handed_back_whole_and_in_order(tmp_path: Path) -> None:
    """Two slices and a half are here; the half is dropped, and so would be a complete last one: it is fetched anew."""
    first, second = os.urandom(SLICE_BYTES), os.urandom(SLICE_BYTES)
    incoming = Incoming(tmp_path)
    for offset, piece in ((0, first), (SLICE_BYTES, second), (2 * SLICE_BYTES, first[: SLICE_BYTES // 2])):
        incoming.take("a", NAME, offset, piece)
    incoming.settle()
    held = Incoming(tmp_path).held("a", NAME, 3 * SLICE_BYTES)
    assert [bytes(piece) for piece in held] == [first, second]
    assert [bytes(piece) for piece in Incoming(tmp_path).held("a", NAME, 2 * SLICE_BYTES)] == [first]


def test_only_named_half_way_transfers_survive(tmp_path: Path) -> None:
    incoming = Incoming(tmp_path)
    for member, name in (("a", "1" * 64), ("a", "2" * 64), ("a.b", "1" * 64)):
        incoming.take(member, name, 0, b"x")
    incoming.drop("a", keep=frozenset({"2" * 64}))
    assert {path.name[:5] for path in tmp_path.iterdir()} == {"a~222", "a.b~1"}


def test_what_is_handed_over_is_complete(tmp_path: Path) -> None:
    incoming, pieces = Incoming(tmp_path), [bytes([number]) * 1000 for number in range(20)]
    for number, piece in enumerate(pieces):
        incoming.take("a", NAME, number * 1000, piece)
    incoming.hand_over("a", NAME, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == b"".join(pieces)


def test_after_a_write_that_failed_nothing_is_written_and_it_is_told_once(tmp_path: Path) -> None:
    """A folder stands where the file should be, and is gone before the second slice could be written: without the
    first, the second would be a file with a gap."""
    incoming = Incoming(tmp_path)
    path = tmp_path / f"a~{NAME}"
    path.mkdir()
    incoming.take("a", NAME, 0, b"first")
    incoming.settle()
    path.rmdir()
    with pytest.raises(IsADirectoryError):
        incoming.take("a", NAME, 5, b"second")
    assert not path.exists()
    assert list(incoming.held("a", NAME, 11)) == []
    incoming.take("a", NAME, 0, b"first")
    incoming.hand_over("a", NAME, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == b"first"


def test_a_payload_whose_last_write_failed_is_not_handed_over(tmp_path: Path) -> None:
    incoming = Incoming(tmp_path)
    (tmp_path / f"a~{NAME}").mkdir()
    incoming.take("a", NAME, 0, b"all of it")
    with pytest.raises(IsADirectoryError):
        incoming.hand_over("a", NAME, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_digests_made_beside_are_those_of_the_slices(tmp_path: Path) -> None:
    incoming, pieces = Incoming(tmp_path), [os.urandom(1000) for _ in range(3 * WINDOW_SLICES)]
    digests = [incoming.digest(piece) for piece in pieces]
    assert [digest() for digest in digests] == [slice_digest(piece) for piece in pieces]


def test_who_is_a_window_ahead_of_a_lane_waits() -> None:
    """The first job is done when a window of them has been given; so each is done while at most a window is ahead."""
    lane, full, given, seen = Lane("test"), threading.Event(), list[Future[None]](), list[int]()
    block = bytes(1 << 20)

    def job() -> None:
        assert full.wait(WAIT_S)
        slice_digest(block)  # something to do, so that an impatient giver would be far ahead
        seen.append(len(given))

    for number in range(50):
        given.append(lane.do(job))
        if number + 1 == WINDOW_SLICES:
            full.set()
    lane.settle()
    assert [future.result(WAIT_S) for future in given] == [None] * 50
    assert all(count <= number + WINDOW_SLICES for number, count in enumerate(seen))
