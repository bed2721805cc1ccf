"""Names of payloads: the same bytes, however they come, have one name, and any other bytes another."""

from __future__ import annotations

import os

import pytest
import xxhash

from protocol.limits import SLICE_BYTES
from protocol.naming import Naming, content_name, digest_at_once, name_of, slice_digest


def test_a_name_is_the_digest_of_the_slices_digests() -> None:
    """abcd, efgh and i, each digested; then the 48 bytes of these digests."""
    parts = [xxhash.xxh3_128_digest(part) for part in (b"abcd", b"efgh", b"i")]
    assert content_name(b"abcdefghi", slice_bytes=4) == xxhash.xxh3_128_hexdigest(b"".join(parts))


def test_digests_are_xxh3_128_in_canonical_form() -> None:
    """The published digest of no bytes at all."""
    assert slice_digest(b"").hex() == name_of([]) == "99aa06d3014798d86001c324468d497f"


def test_several_threads_give_the_name_that_one_gives() -> None:
    data = os.urandom(5 * SLICE_BYTES + 17)
    slices = [data[start : start + SLICE_BYTES] for start in range(0, len(data), SLICE_BYTES)]
    assert content_name(data) == name_of(map(slice_digest, slices)) == name_of(digest_at_once(one)() for one in slices)


@pytest.mark.parametrize("step", [1, 3, 4, 5, 8, 100])
@pytest.mark.parametrize("size", [1, 4, 7, 8, 9, 30])
def test_pieces_of_any_length_give_the_name_of_the_whole(size: int, step: int) -> None:
    data, naming = bytes(range(size)), Naming(slice_bytes=4)
    for start in range(0, size, step):
        naming.update(data[start : start + step])
    assert naming.name() == content_name(data, slice_bytes=4)


def test_a_name_can_be_asked_for_before_the_end() -> None:
    naming = Naming(slice_bytes=4)
    naming.update(b"abcdef")
    assert naming.name() == content_name(b"abcdef", slice_bytes=4)
    naming.update(b"gh")
    assert naming.name() == content_name(b"abcdefgh", slice_bytes=4)


def test_one_changed_byte_and_two_slices_in_another_order_change_the_name() -> None:
    names = {content_name(data, slice_bytes=4) for data in (b"abcdefgh", b"abcdefgi", b"efghabcd", b"abcdefgh\0")}
    assert len(names) == 4
