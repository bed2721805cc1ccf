"""Claims about transport encodings: sizes, rounding, blocks that can be read alone, and error feedback."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import Float32Array
from protocol.compression import compressed
from protocol.encodings import (
    CODECS,
    DIFFERENCES,
    ENCODINGS,
    LARGEST_BLOCK,
    Encoding,
    downward,
    encode_difference,
    encoding_of,
    from_wire,
    stored,
    to_wire,
    wire_bytes,
    with_feedback,
)
from protocol.errors import InvalidField
from protocol.tensors import Layout, TensorSet, WireTensor

RNG = np.random.default_rng(3)
VALUES = (RNG.standard_normal(3000) * RNG.choice([0.001, 1.0, 50.0], 3000)).astype(np.float32)


def back(values: Float32Array, encoding: Encoding) -> Float32Array:
    return from_wire(to_wire(values, encoding), encoding, values.size)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 257, 3000])
def test_the_size_follows_from_the_number_of_values(encoding: Encoding, count: int) -> None:
    assert to_wire(VALUES[:count], encoding).nbytes == wire_bytes(encoding, count)
    assert back(VALUES[:count], encoding).shape == (count,)


def test_bytes_per_thousand_values() -> None:
    """1,024 values are 16 blocks of 66 or 34 bytes, or 4 blocks of 48 or 130."""
    assert {encoding: wire_bytes(encoding, 1024) for encoding in ENCODINGS} == {
        "f32": 4096, "f16": 2048, "bf16": 2048, "int8": 1056, "int4": 544, "topk": 192, "coarse": 520,
    }  # fmt: skip


@pytest.mark.parametrize(("encoding", "steps"), [("int8", 127), ("int4", 7)])
def test_a_value_is_off_by_at_most_half_a_step_of_its_block(encoding: Encoding, steps: int) -> None:
    """A step is the block's largest magnitude / steps, rounded upwards by at most 2^-7 of itself to bf16."""
    blocks = VALUES[: 46 * 64].reshape(-1, 64)
    step = np.abs(blocks).max(axis=1, keepdims=True) / steps * (1 + 2**-7)
    off = np.abs(back(blocks.ravel(), encoding).reshape(-1, 64) - blocks)
    assert (off <= 0.5001 * step).all()


def test_coarse_is_off_by_at_most_half_a_step_and_compresses_to_two_bits_a_value() -> None:
    """A step is 1.1 times the block's root mean square, or its largest magnitude / 7, rounded upwards to bf16. Normal
    values in steps of 1.1 standard deviations have an entropy of 1.9 bits (0.5 log2(2 pi e) - log2(1.1))."""
    blocks = VALUES[: 11 * 256].reshape(-1, 256)
    usual = 1.1 * np.sqrt(np.square(blocks, dtype=np.float64).mean(axis=1, keepdims=True))
    step = np.maximum(usual, np.abs(blocks).max(axis=1, keepdims=True) / 7) * (1 + 2**-7)
    off = np.abs(back(blocks.ravel(), "coarse").reshape(-1, 256) - blocks)
    assert (off <= 0.5001 * step).all()
    normal = RNG.standard_normal(1 << 16).astype(np.float32)
    assert 1.8 < 8 * len(compressed(to_wire(normal, "coarse"), "coarse")) / normal.size < 2.2


def test_a_row_arrives_as_its_base_and_the_difference() -> None:
    base = VALUES + np.float32(0.01)
    wire, arrived = encode_difference(VALUES, base=base, encoding="coarse")
    assert np.array_equal(arrived, base + from_wire(wire, "coarse", VALUES.size))
    assert np.square(arrived - VALUES).sum() < 0.15 * np.square(base - VALUES).sum()


def test_bf16_keeps_eight_bits_of_the_mantissa_and_any_magnitude() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -3e38, 1e-40, 0.0], dtype=np.float32)
    assert back(values, "bf16")[:3].tolist() == [1.0, 1.0, 1.015625]  # a tie goes to the even neighbour
    assert np.allclose(back(VALUES, "bf16"), VALUES, rtol=2**-8)
    assert np.isfinite(back(values, "bf16")).all()


def test_topk_keeps_the_largest_of_every_256() -> None:
    values = np.arange(512, dtype=np.float32)
    kept = np.flatnonzero(back(values, "topk"))
    assert kept.tolist() == [*range(240, 256), *range(496, 512)]
    assert np.allclose(back(values, "topk")[kept], values[kept], rtol=2**-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("encoding", ["bf16", "int8", "int4", "topk", "coarse"])
def test_what_is_not_finite_arrives_as_not_finite(encoding: Encoding, bad: float) -> None:
    values = VALUES.copy()
    values[100] = bad
    assert not np.isfinite(back(values, encoding)).all()


@pytest.mark.parametrize("encoding", ["int8", "int4", "topk", "coarse"])
def test_hostile_bytes_decode_to_values_that_checks_can_refuse(encoding: Encoding) -> None:
    hostile = bytes([0xFF]) * wire_bytes(encoding, 256)
    assert from_wire(hostile, encoding, 256).shape == (256,)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_part_that_begins_a_block_can_be_read_and_written_alone(encoding: Encoding) -> None:
    assert LARGEST_BLOCK % CODECS[encoding].values == 0
    values = np.where(np.abs(VALUES) < 1e4, VALUES, 0).astype(np.float32)
    whole = bytes(to_wire(values, encoding))
    cut = wire_bytes(encoding, LARGEST_BLOCK)
    assert bytes(to_wire(values[:LARGEST_BLOCK], encoding)) == whole[:cut]
    assert np.array_equal(from_wire(whole[cut:], encoding, 1976), from_wire(whole, encoding, 3000)[LARGEST_BLOCK:])


@pytest.mark.parametrize("encoding", sorted(DIFFERENCES))
def test_error_feedback_loses_nothing_for_good(encoding: Encoding) -> None:
    """A step of the same size in every round: what has arrived after 200 rounds lacks what is in the last error alone,
    so its mean per round comes to the step, though single rounds carry a sixteenth of the values (topk)."""
    step = (VALUES[:512] / 1000).astype(np.float32)
    delivered, error = np.zeros(512, dtype=np.float32), np.zeros(512, dtype=np.float32)
    for _ in range(200):
        _, delivered, error = with_feedback(delivered + step, delivered=delivered, error=error, encoding=encoding)
    assert np.allclose(delivered + error, 200 * step, rtol=1e-3, atol=1e-4)
    assert np.abs(delivered / 200 - step).max() < 0.2 * np.abs(step).max()


@pytest.mark.parametrize("encoding", sorted(DIFFERENCES))
def test_variances_never_arrive_negative_and_come_to_what_is_measured(encoding: Encoding) -> None:
    """Running variances that are measured anew in every round, beside weights that move on: 1 at first, and from then
    on between 0.001 and 0.5, whatever was delivered."""
    measured = np.linspace(0.001, 0.5, 100, dtype=np.float32)
    delivered = np.concatenate([VALUES[:412] / 1000, np.ones(100)]).astype(np.float32)
    error, variances = np.zeros_like(delivered), [(412, 512)]
    for _ in range(40):
        trained = np.concatenate([delivered[:412] + np.float32(0.01), measured])
        wire, arrived, error = with_feedback(
            trained, delivered=delivered, error=error, encoding=encoding, variances=variances
        )
        assert np.array_equal(delivered + from_wire(wire, encoding, 512), arrived)
        assert arrived[412:].min() >= 0.0
        assert not error[412:].any()
        delivered = arrived
    assert np.abs(delivered[412:] - measured).max() < 0.1


def test_a_variance_that_rounding_would_make_negative_goes_half_of_the_way() -> None:
    """In steps of a seventh of the largest difference, 1, -0.4 becomes -3 / 7, which is more than the base has; half of
    it becomes -1 / 7."""
    base = np.full(2048, 0.41, dtype=np.float32)
    values = base.copy()
    values[1500:1502] = base[0] + 1.0, base[0] - 0.4
    _, bare = encode_difference(values, base=base, encoding="coarse")
    wire, arrived = encode_difference(values, base=base, encoding="coarse", variances=[(1500, 1502)])
    assert bare[1501] < 0.0
    assert arrived[1501] == pytest.approx(0.41 - 1 / 7, abs=0.01)
    assert np.array_equal(np.delete(arrived, 1501), np.delete(bare, 1501))
    assert np.array_equal(base + from_wire(wire, "coarse", 2048), arrived)


def test_models_travel_back_as_int8_where_updates_are_differences_which_are_stored_in_full() -> None:
    assert [downward(one) for one in ENCODINGS] == ["f32", "f16", "bf16", "int8", "int8", "int8", "int8"]
    assert [stored(one) for one in ENCODINGS] == ["f32", "f16", "bf16", "f32", "f32", "f32", "f32"]


def test_an_unknown_encoding_is_refused_with_all_names() -> None:
    with pytest.raises(InvalidField, match="f32, f16, bf16, int8, int4, topk, coarse"):
        encoding_of("f8")


def test_a_set_by_blocks_gives_back_its_tensors_and_has_float32_alone() -> None:
    arrays = {"a": VALUES[:100].reshape(10, 10), "b": VALUES[100:130]}
    sent = TensorSet.of(arrays, "int8")
    assert sent.size_bytes == 3 * 66
    assert np.array_equal(np.concatenate([one.ravel() for one in sent.arrays().values()]), sent.flat())
    layout = Layout((WireTensor(name="n", dtype="int64", shape=()),))
    with pytest.raises(InvalidField, match="not all float32"):
        TensorSet(layout=layout, encoding="int8", data=memoryview(bytes(8)))
