"""Bytes from outside: anything decodes to a message or is the peer's fault; nothing else, and never much memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import msgpack  # type: ignore[import-untyped]
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec import decode, encode
from protocol.errors import CODES, RemoteProtocolError
from protocol.limits import HEADER_BYTES, MIB
from protocol.messages import KINDS, Message, Score, Step
from protocol.tensors import Layout, TensorSet, WireTensor
from protocol.versions import VERSION
from tests.unit.protocol.samples import EVERYTHING, heartbeat, update

VALID = [[bytes(frame) for frame in encode(message)] for message in EVERYTHING]

ALLOWANCE_BYTES = 8 * MIB
"""What decoding one hostile message may reserve: the parsed forms of the largest legal header, many times over."""


def judged(frames: Sequence[bytes]) -> Message | None:
    """The message, or None where the peer is at fault; any other exception fails the test."""
    try:
        return decode(frames)
    except RemoteProtocolError as fault:
        code, words = fault.code, str(fault)
    assert code in CODES
    assert words.isprintable()
    assert len(words) < 1000
    return None


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> list[bytes]:
    """A valid message with some bytes changed, cut, doubled or added, and perhaps its frames exchanged."""
    frames = [bytearray(frame) for frame in draw(st.sampled_from(VALID))]
    for _ in range(draw(st.integers(1, 4))):
        frame = frames[draw(st.integers(0, len(frames) - 1))]
        at = draw(st.integers(0, max(0, min(len(frame) - 1, 400))))
        match draw(st.sampled_from(["set", "cut", "insert", "double"])):
            case "set" if frame:
                frame[at] = draw(st.integers(0, 255))
            case "cut":
                del frame[at : at + draw(st.integers(1, 40))]
            case "insert":
                frame[at:at] = draw(st.binary(min_size=1, max_size=9))
            case _:
                frame[at:at] = frame[at : at + 20]
    chosen = draw(st.permutations(frames)) if draw(st.booleans()) else frames
    return [bytes(frame) for frame in chosen]


@st.composite
def misfilled(draw: st.DrawFn) -> list[bytes]:
    """A header of the right shape whose fields hold anything: gets past the grammar and tries the contracts."""
    message = draw(st.sampled_from(EVERYTHING))
    frames: list[bytes | bytearray | memoryview] = []
    fields = message.write(frames)
    for name in draw(st.lists(st.sampled_from([*fields, "extra"]), max_size=3)) if fields else []:
        fields[name] = draw(plain)
    header: bytes = msgpack.packb((VERSION.major, draw(st.sampled_from([0, 0, 1])), message.KIND, fields))
    return [header, *map(bytes, frames)]


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_random_bytes_are_a_message_or_the_peers_fault(frames: list[bytes]) -> None:
    judged(frames)


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_mutated_message_is_a_message_or_the_peers_fault(frames: list[bytes]) -> None:
    message = judged(frames)
    if message is not None:
        assert decode(encode(message)) == message


@settings(max_examples=120, deadline=None)
@given(misfilled())
def test_message_filled_with_anything_is_a_message_or_the_peers_fault(frames: list[bytes]) -> None:
    message = judged(frames)
    if message is not None:
        assert decode(encode(message)) == message


@given(st.sampled_from(sorted(KINDS)), plain)
def test_known_kind_with_any_fields_is_a_message_or_the_peers_fault(kind: str, fields: object) -> None:
    judged([msgpack.packb((VERSION.major, 0, kind, fields))])


HOSTILE = {
    "arrays that announce the most entries, nested": b"\xdc\x00\x40" * (HEADER_BYTES // 3),
    "arrays that announce far more": b"\xdd\xff\xff\xff\xff" * 1000,
    "maps that announce far more": b"\xdf\xff\xff\xff\xff" * 1000,
    "text that announces 4 GiB": b"\x94\x01\x00\xdb\xff\xff\xff\xff",
    "binary that announces 4 GiB": b"\x94\x01\x00\xc6\xff\xff\xff\xff",
    "one long run of nils": b"\x94\x01\x00\xa5hello\xdc\xff\xff" + b"\xc0" * 65_535,
    "layout that describes 4 EiB": msgpack.packb(
        (1, 0, "train", {"weights": {"layout": "w float64 9999999999,9999999999\n"}})
    ),
    "tens of thousands of tensors": msgpack.packb(
        (
            1,
            0,
            "train",
            {"weights": {"layout": "".join(f"{i} int64 -\n" for i in range(4600)), "encoding": "f32", "body": None}},
        )
    ),
}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(HOSTILE)) | mutated())
def test_no_message_makes_the_decoder_reserve_more_than_the_limit(case: str | list[bytes]) -> None:
    frames = [HOSTILE[case]] if isinstance(case, str) else case
    tracemalloc.start()
    try:
        judged(frames)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ALLOWANCE_BYTES


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20)
specs = st.builds(
    WireTensor,
    name=names,
    dtype=st.sampled_from(["float32", "float64", "int64"]),
    shape=st.lists(st.integers(0, 5), max_size=4).map(tuple),
)
layouts = st.lists(specs, max_size=8, unique_by=lambda spec: spec.name).map(lambda found: Layout(tuple(found)))


@given(layouts)
def test_layout_text_says_everything_about_a_layout(layout: Layout) -> None:
    assert Layout.parse(layout.text) == layout
    assert Layout.parse(layout.text).digest == layout.digest


@given(layouts, st.sampled_from(["f32", "f16"]), st.integers(0, 2**32))
def test_any_tensors_survive_the_wire(layout: Layout, encoding: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = {spec.name: np.asarray(rng.normal(size=spec.shape) * 100).astype(spec.dtype) for spec in layout.specs}
    sent = TensorSet.of(arrays, "f16" if encoding == "f16" else "f32")
    back = decode([bytes(frame) for frame in encode(update(0, sent))])
    assert back == update(0, sent)
    for name, array in sent.arrays().items():
        halved = encoding == "f16" and array.dtype == np.float32
        expected = arrays[name].astype(np.float16) if halved else arrays[name]
        np.testing.assert_array_equal(array, expected)


rounds = st.integers(0, 1_000_000)
steps = st.builds(
    Step, kind=st.sampled_from(["anchor", "train", "finish", "stats", "update", "goodbye"]), round_no=rounds
)
scores = st.builds(
    Score,
    model=st.sampled_from(["delivered", "trained"]),
    split=st.sampled_from(["train", "validation", "test"]),
    samples=st.integers(100, 2**53),
    correct=st.integers(0, 100),
    loss=st.none() | st.floats(0, 1e300),
    macro_f1=st.floats(0, 1),
)


@given(st.none() | steps, st.none() | steps, rounds)
def test_any_heartbeat_comes_back_equal(have: Step | None, want: Step | None, round_no: int) -> None:
    message = heartbeat(have=have, want=want, round_no=round_no)
    assert decode(encode(message)) == message


@given(scores)
def test_any_score_comes_back_bit_for_bit(score: Score) -> None:
    back = decode(
        encode(
            type(update(0))(
                run="r", round_no=0, steps=1, train_loss=score.loss, scores=(score,), weights=TensorSet.of({})
            )
        )
    )
    assert getattr(back, "scores") == (score,)  # noqa: B009 - decode gives any message
