"""Messages to frames and back: nothing changes on the way, and nothing that breaks the grammar gets in."""

from __future__ import annotations

from dataclasses import replace

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pytest

from protocol import codec
from protocol.codec import decode, encode, offers
from protocol.errors import (
    BadField,
    BadFrames,
    BadHeader,
    InvalidField,
    RemoteProtocolError,
    TooLarge,
    UnknownKind,
    VersionMismatch,
)
from protocol.limits import DEPTH, EMBEDDED_BYTES, HEADER_BYTES, ITEMS, LAYOUT_BYTES, SETS_PER_MESSAGE, SLICE_BYTES
from protocol.messages import KINDS, Error, Hello, Message, Train, Update
from protocol.tensors import Layout, TensorSet
from protocol.versions import VERSION
from tests.unit.protocol.samples import (
    EVERYTHING,
    HELLO,
    LARGE,
    MEDIUM,
    PLAN,
    SCORE,
    SMALL,
    WELCOME,
    heartbeat,
    slice_of,
    train,
    update,
)


def header(kind: str, fields: object, major: int = VERSION.major, minor: int = VERSION.minor) -> bytes:
    packed: bytes = msgpack.packb((major, minor, kind, fields))
    return packed


def fields_of(message: Message) -> dict[str, object]:
    return message.write([])


@pytest.mark.parametrize("message", EVERYTHING, ids=lambda m: m.KIND)
def test_every_message_comes_back_equal(message: Message) -> None:
    frames = [bytes(frame) for frame in encode(message)]
    assert decode(frames) == message


def test_samples_cover_every_kind() -> None:
    assert {message.KIND for message in EVERYTHING} == set(KINDS)


def test_set_up_to_64_kib_rides_in_the_header_and_a_larger_one_in_its_own_frame() -> None:
    inside = TensorSet.of({"w": np.zeros(EMBEDDED_BYTES // 4, dtype=np.float32)})
    behind = TensorSet.of({"w": np.zeros(EMBEDDED_BYTES // 4 + 1, dtype=np.float32)})
    assert [len(encode(train(0, weights))) for weights in (inside, behind)] == [1, 2]


def test_payload_frame_is_the_array_itself_not_a_copy() -> None:
    flat = np.zeros(20_001, dtype=np.float32)
    frames = encode(train(0, TensorSet.of_flat(MEDIUM.layout, flat)))
    flat[3] = 7.0
    assert np.frombuffer(frames[1], dtype=np.float32)[3] == 7.0


def test_set_above_one_slice_is_announced_and_listed_as_offer() -> None:
    sent = encode(train(0, LARGE))
    received = decode(sent)
    assert len(sent) == 1
    assert offers(received) == (LARGE,)
    assert offers(train(0, MEDIUM)) == ()


def test_frame_sizes_count_every_frame() -> None:
    frames = encode(train(0, MEDIUM))
    assert codec.frame_sizes(frames) == (len(frames[0]), 80_004)


@pytest.mark.parametrize("count", [0, SETS_PER_MESSAGE + 2])
def test_wrong_number_of_frames_is_refused(count: int) -> None:
    with pytest.raises(BadFrames):
        decode([encode(HELLO)[0]] * count)


def test_frame_nobody_announced_is_refused() -> None:
    with pytest.raises(BadFrames, match="1 more frames"):
        decode([*encode(HELLO), b"stowaway"])


def test_announced_frame_that_is_missing_is_refused() -> None:
    with pytest.raises(BadField, match="behind the header"):
        decode(encode(train(0, MEDIUM))[:1])


def test_payload_frame_of_another_length_is_refused() -> None:
    with pytest.raises(BadField, match="80004 bytes"):
        decode([encode(train(0, MEDIUM))[0], b"short"])


def test_oversized_header_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooLarge, match="header"):
        decode([b"\xc1" * (HEADER_BYTES + 1)])


def test_oversized_frame_is_refused() -> None:
    with pytest.raises(TooLarge, match="frame"):
        decode([encode(train(0, MEDIUM))[0], bytes(SLICE_BYTES + 1)])


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x01", msgpack.packb([1, 0, "hello"]), msgpack.packb({"a": 1})])
def test_header_outside_the_grammar_is_refused(raw: bytes) -> None:
    with pytest.raises(BadHeader):
        decode([raw])


def test_bytes_after_the_header_are_refused() -> None:
    with pytest.raises(BadHeader, match="ExtraData"):
        decode([bytes(encode(HELLO)[0]) + b"\x00"])


def test_other_major_version_is_refused_before_anything_else_is_looked_at() -> None:
    with pytest.raises(VersionMismatch, match=r"99\."):
        decode([header("no such kind", None, major=99)])


@pytest.mark.parametrize("version", [("1", 0), (1, 128), (-1, 0), (True, 0), (None, None)])
def test_version_that_is_not_one_is_refused(version: tuple[object, object]) -> None:
    with pytest.raises(BadHeader, match="0 to 127"):
        decode([msgpack.packb((*version, "hello", {}))])


def test_largest_message_fits_the_header_limit() -> None:
    """Three sets, each with the longest layout and embedded body, and every text at its longest."""
    longest = "".join(f"{'n' * 180}{index:04d} float32 49\n" for index in range(334))
    layout = Layout.parse(longest)
    assert LAYOUT_BYTES - 300 < len(longest) <= LAYOUT_BYTES
    assert EMBEDDED_BYTES - 300 < layout.size_bytes("f32") <= EMBEDDED_BYTES
    full = TensorSet.of_flat(layout, np.zeros(layout.elements, dtype=np.float32))
    message = replace(update(0, full), statistics=full, tables=full, scores=(SCORE,) * 6)
    (only,) = encode(message)
    assert len(only) < HEADER_BYTES
    assert decode([only]) == message
    options = {chr(0x1F600 + index) * 64: "\U0001f600" * 200 for index in range(ITEMS)}
    (only,) = encode(replace(WELCOME, plan=replace(PLAN, options=options), initial=full))
    assert len(only) < HEADER_BYTES


def test_slice_carries_its_bytes_in_a_frame_and_nowhere_else() -> None:
    fields = fields_of(slice_of(b"1234"))
    with pytest.raises(BadField, match="data"):
        decode([header("slice", {**fields, "data": b"1234"})])
    with pytest.raises(BadField, match="data"):
        decode([header("slice", fields), b""])


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownKind, match="gossip"):
        decode([header("gossip", {})])


def test_unknown_field_is_refused_from_a_peer_of_our_version_and_ignored_from_a_newer_one() -> None:
    fields = {**fields_of(HELLO), "mood": "good"}
    with pytest.raises(BadField, match="mood"):
        decode([header("hello", fields)])
    assert decode([header("hello", fields, minor=VERSION.minor + 1)]) == HELLO


def test_missing_field_is_refused_unless_it_has_a_default() -> None:
    fields = fields_of(HELLO)
    del fields["classes"]
    with pytest.raises(BadField, match="classes"):
        decode([header("hello", fields)])
    shorter = fields_of(update(0))
    del shorter["statistics"]
    assert decode([header("update", shorter)]) == update(0)


def test_map_with_one_name_twice_is_refused() -> None:
    """{"a": 1, "a": 2} in msgpack, in the place of the fields."""
    twice = b"\x94\x01\x00\xa5hello\x82\xa1a\x01\xa1a\x02"
    with pytest.raises(BadHeader, match="repeated"):
        decode([twice])


def test_fault_names_the_whole_path_of_the_field() -> None:
    fields = fields_of(WELCOME)
    plan = PLAN.write([])
    fields["plan"] = {**plan, "sgd": {"learning_rate": -1.0, "batch_size": 32}}
    with pytest.raises(BadField, match=r"welcome\.plan\.sgd\.learning_rate.*-1\.0.*above 0"):
        decode([header("welcome", fields)])


def nested(levels: int) -> object:
    return [nested(levels - 1)] if levels else 1


def test_nesting_is_refused_one_level_above_its_limit_and_not_before() -> None:
    """The header is level 1 and the map of fields level 2, so a field may nest DEPTH - 2 levels of its own."""
    with pytest.raises(BadField, match="name"):
        decode([header("hello", {**fields_of(HELLO), "name": nested(DEPTH - 2)})])
    with pytest.raises(TooLarge, match="nesting"):
        decode([header("hello", {**fields_of(HELLO), "name": nested(DEPTH - 1)})])
    with pytest.raises(RemoteProtocolError):
        decode([b"\x91" * 5000])


def test_array_is_refused_one_entry_above_its_limit_and_not_before() -> None:
    with pytest.raises(BadField, match="input_shape"):
        decode([header("hello", {**fields_of(HELLO), "input_shape": [1] * ITEMS})])
    with pytest.raises(BadHeader, match="max_array_len"):
        decode([header("hello", {**fields_of(HELLO), "input_shape": [1] * (ITEMS + 1)})])


def test_fault_of_a_peer_becomes_the_error_that_answers_it() -> None:
    fault = BadField("x" * 600, 1, "less")
    answer = decode(encode(Error.of(fault)))
    assert isinstance(answer, Error)
    assert (answer.code, answer.about, answer.reason[:20]) == ("bad-field", None, "field '" + "x" * 13)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(BadField, match="train_loss"):
        decode([header("update", {**fields_of(update(0)), "train_loss": float("nan")})])


def test_truth_value_is_not_a_number() -> None:
    with pytest.raises(BadField, match="round_no"):
        decode([header("heartbeat", {**fields_of(heartbeat()), "round_no": True})])


@pytest.mark.parametrize(
    ("weights", "body"), [(SMALL, None), (SMALL, "ab" * 16), (MEDIUM, b"x"), (LARGE, None), (LARGE, "AB" * 16)]
)
def test_set_carried_otherwise_than_its_size_says_is_refused(weights: TensorSet, body: object) -> None:
    fields = fields_of(train(0, weights))
    fields["weights"] = {"layout": weights.layout.text, "encoding": "f32", "body": body}
    with pytest.raises(BadField, match="body"):
        decode([header("train", fields)])


@pytest.mark.parametrize(
    "wire",
    [
        {"layout": 3, "encoding": "f32", "body": b""},
        {"layout": "w float32 2", "encoding": "f32", "body": b""},
        {"layout": "w object 2\n", "encoding": "f32", "body": b""},
        {"layout": "w float32 2\nw float32 2\n", "encoding": "f32", "body": bytes(16)},
        {"layout": "w float32 9999999999,9999999999\n", "encoding": "f32", "body": "ab" * 16},
        {"layout": "w float32 2\n", "encoding": "f8", "body": b""},
        {"layout": "w float32 2\n", "encoding": "f32"},
        {"layout": "w float32 2\n", "encoding": "f32", "body": b"1234567"},
        7,
    ],
)
def test_tensor_set_that_lies_about_itself_is_refused(wire: object) -> None:
    with pytest.raises(BadField, match="weights"):
        decode([header("train", {**fields_of(train(0)), "weights": wire})])


def test_our_own_faults_are_not_blamed_on_the_peer() -> None:
    with pytest.raises(InvalidField, match="round_no"):
        train(-1)
    with pytest.raises(InvalidField, match="name"):
        replace(HELLO, name="two words")
    with pytest.raises(InvalidField, match="warmup_rounds"):
        replace(PLAN, anchor="warmup")
    with pytest.raises(InvalidField, match="warmup_rounds"):
        replace(PLAN, anchor="warmup", warmup_rounds=20)


def test_empty_set_is_legal_where_everything_stays_home() -> None:
    empty = TensorSet.of({})
    message = decode(encode(update(0, empty)))
    assert isinstance(message, Update)
    assert message.weights.size_bytes == 0
    assert message.weights.flat().shape == (0,)


def test_decoded_payload_is_read_only() -> None:
    message = decode([bytearray(bytes(frame)) for frame in encode(train(0, MEDIUM))])
    assert isinstance(message, Train)
    assert not message.weights.flat().flags.writeable


def test_control_characters_cannot_reach_a_log() -> None:
    with pytest.raises(BadField, match="software"):
        decode([header("hello", {**fields_of(HELLO), "software": "x\x1b[2J\n"})])
    assert isinstance(decode([header("hello", {**fields_of(HELLO), "software": "Spital Zürich ✓"})]), Hello)
