"""Claims about compressed sets: what is sent, and that no body makes a receiver reserve more than its layout says."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import zstandard

from protocol.codec import decode, encode, frame_sizes
from protocol.compression import COMPRESSED, compressed, decompressed
from protocol.encodings import ENCODINGS, Encoding, to_wire
from protocol.errors import BadField, InvalidField
from protocol.messages import Update
from protocol.tensors import Layout, TensorSet, WireTensor

VALUES = np.random.default_rng(5).standard_normal(200_000).astype(np.float32)


def an_update(encoding: Encoding, count: int = VALUES.size) -> Update:
    layout = Layout((WireTensor(name="w", dtype="float32", shape=(count,)),))
    weights = TensorSet.of_flat(layout, VALUES[:count], encoding)
    return Update(
        run="r", round_no=1, steps=3, train_loss=0.5, scores=(), weights=weights, statistics=None, tables=None
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [0, 1, 1000, 200_000])
def test_a_set_comes_back_as_it_was_and_only_compressed_encodings_are_shortened(encoding: Encoding, count: int) -> None:
    """1,000 values are inside the header under every encoding, 200,000 in a frame of their own under all but topk."""
    update = an_update(encoding, count)
    frames = encode(update)
    arrived = decode(frames)
    assert isinstance(arrived, Update)
    assert arrived.weights == update.weights
    assert arrived.weights.data == update.weights.data
    if count == 200_000:
        assert (sum(frame_sizes(frames)) < update.weights.size_bytes) == (encoding in COMPRESSED)


def test_int4_differences_lose_a_sixth_of_their_bytes() -> None:
    """Normal values in blocks of 64: the largest, about 2.4 deviations, is seven steps; 3.3 of 4 bits are told."""
    wire = to_wire(VALUES, "int4")
    assert memoryview(compressed(wire, "int4")).nbytes < 0.9 * wire.nbytes


def frame_of(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def with_window(size: int, *, log: int) -> bytes:
    """A frame of so many zero bytes as one repeated byte, whose header asks for a window of 2^log bytes."""
    header = struct.pack("<IBBI", 0xFD2FB528, 0b10000000, (log - 10) << 3, size)
    return header + (size << 3 | 0b011).to_bytes(3, "little") + bytes(1)


SIZE = 5440  # of 10,240 values under int4: 160 blocks of 34 bytes

HOSTILE = {
    "a bomb": frame_of(bytes(64_000_000)),
    "one byte more than the layout says": frame_of(bytes(SIZE + 1)),
    "one byte less": frame_of(bytes(SIZE - 1)),
    "no announced size": zstandard.ZstdCompressor(write_content_size=False).compress(bytes(SIZE)),
    "cut off": frame_of(bytes(SIZE))[:-1],
    "two frames": frame_of(bytes(SIZE)) + frame_of(bytes(10)),
    "bytes behind the frame": frame_of(bytes(SIZE)) + b"x",
    "a skippable frame": struct.pack("<II", 0x184D2A50, 4) + b"abcd",
    "a window of 128 MiB": with_window(SIZE, log=27),
    "noise": b"\xff" * 100,
    "nothing": b"",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_body_that_is_not_exactly_its_set_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidField, match="body"):
        decompressed(body, "int4", SIZE)


def test_a_frame_made_by_others_is_taken_if_its_window_is_no_larger_than_a_slice() -> None:
    assert decompressed(with_window(SIZE, log=22), "int4", SIZE) == bytes(SIZE)


def test_a_hostile_frame_of_a_message_is_a_fault_of_the_peer() -> None:
    frames = encode(an_update("int4"))
    assert len(frames) == 2
    with pytest.raises(BadField, match="update"):
        decode([frames[0], frame_of(bytes(64_000_000))])


@pytest.mark.parametrize("encoding", sorted(set(ENCODINGS) - COMPRESSED))
def test_other_encodings_are_never_taken_compressed(encoding: Encoding) -> None:
    frames = encode(an_update(encoding))
    with pytest.raises(BadField, match="data"):
        decode([frames[0], frame_of(bytes(memoryview(frames[1]).nbytes))])
