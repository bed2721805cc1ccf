"""Named arrays as flat bytes: canonical layouts, exact values, sizes checked before anything is reserved."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.encodings.halves import F16_LARGEST, narrow, widen
from protocol.errors import InvalidField, Overflow
from protocol.limits import LAYOUT_BYTES, SET_BYTES, SLICE_BYTES, TENSORS
from protocol.naming import content_name
from protocol.tensors import Array, Layout, TensorSet, WireTensor, names_digest

MIXED: dict[str, Array] = {
    "w": np.array([[1.5, -2.0, 0.1]], dtype=np.float32),
    "n": np.array(7, dtype=np.int64),
    "m": np.array([1e-300, np.pi]),
    "empty": np.zeros((0, 4), dtype=np.float32),
}


def test_layout_text_is_one_line_per_tensor() -> None:
    assert Layout.of(MIXED).text == "w float32 1,3\nn int64 -\nm float64 2\nempty float32 0,4\n"


def test_each_tensor_begins_at_a_multiple_of_its_item_size() -> None:
    """w: 12 bytes at 0. n: 8 bytes at 16, the next multiple of 8. m: 16 bytes at 24. empty: at 40. End: 40."""
    layout = Layout.of(MIXED)
    assert layout.offsets("f32") == (0, 16, 24, 40)
    assert layout.size_bytes("f32") == 40


def test_f16_halves_float32_tensors_and_leaves_the_others() -> None:
    """w: 6 bytes at 0. n: 8 bytes at 8. m: 16 bytes at 16. End: 32."""
    layout = Layout.of(MIXED)
    assert layout.offsets("f16") == (0, 8, 16, 32)
    assert layout.size_bytes("f16") == 32


def test_arrays_come_back_bit_for_bit_under_f32() -> None:
    back = TensorSet.of(MIXED).arrays()
    assert list(back) == list(MIXED)
    for name, array in MIXED.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_arrays_come_back_rounded_to_half_precision_under_f16() -> None:
    back = TensorSet.of(MIXED, "f16").arrays()
    assert back["w"].dtype == np.float32
    assert back["w"].tolist() == MIXED["w"].astype(np.float16).astype(np.float32).tolist()
    assert back["m"].tobytes() == MIXED["m"].tobytes()


def test_non_contiguous_arrays_travel_in_logical_order() -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert TensorSet.of({"w": turned}).flat().tolist() == [0, 3, 1, 4, 2, 5]


def test_bytes_at_an_odd_address_are_read_correctly() -> None:
    tensors = TensorSet.of({"w": np.arange(5, dtype=np.float32)})
    assert tensors.data is not None
    shifted = memoryview(b"x" + tensors.data.tobytes())[1:]
    moved = TensorSet(layout=tensors.layout, data=shifted)
    assert moved.flat().tolist() == [0, 1, 2, 3, 4]
    assert moved.flat().flags.aligned
    assert moved.arrays()["w"].flags.aligned


def test_equal_layouts_have_equal_digests_and_any_difference_shows() -> None:
    layout = Layout.of(MIXED)
    assert Layout.parse(layout.text).digest == layout.digest
    reordered = Layout(tuple(reversed(layout.specs)))
    reshaped = Layout((WireTensor(name="w", dtype="float32", shape=(3, 1)), *layout.specs[1:]))
    assert len({layout.digest, reordered.digest, reshaped.digest}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "w float32 2",
        "w float32 02\n",
        "w float32 2,\n",
        "w  float32 2\n",
        "w float32 \n",
        "w float16 2\n",
        "w object 2\n",
        "w float32 -1\n",
        "w float32 ٣\n",
        "\n",
        "w float32 2\r\n",
        "a\u2028b float32 2\n",
        "w float32 1,1,1,1,1,1,1,1,1\n",
        "w float32 2\nw int64 2\n",
        "n" * 201 + " float32 2\n",
        f"w float32 {SET_BYTES // 4 + 1}\n",
        "".join(f"{i} int64 -\n" for i in range(TENSORS + 1)),
        "w" * (LAYOUT_BYTES + 1),
    ],
)
def test_text_that_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        Layout.parse(text)


def test_arrays_of_other_dtypes_do_not_travel() -> None:
    for array in (np.array(["a"]), np.array([None]), np.array([1 + 2j]), np.zeros(2, dtype=np.float16)):
        with pytest.raises(InvalidField, match="float32, float64, int64"):
            TensorSet.of({"w": array})


def test_layouts_of_our_own_keep_the_limits_too() -> None:
    many = tuple(WireTensor(name=str(index), dtype="int64", shape=()) for index in range(TENSORS + 1))
    wordy = tuple(WireTensor(name=f"{index:0200d}", dtype="int64", shape=()) for index in range(400))
    for specs in (many, wordy):
        with pytest.raises(InvalidField, match="at most"):
            Layout(specs)


def test_unknown_encoding_is_refused() -> None:
    with pytest.raises(InvalidField, match="f32, f16"):
        TensorSet(layout=Layout(()), encoding="f8", data=memoryview(b""))  # type: ignore[arg-type]


def test_flat_vector_must_fit_its_layout() -> None:
    layout = Layout.of({"w": np.zeros((2, 3), dtype=np.float32)})
    with pytest.raises(InvalidField, match="6 float32"):
        TensorSet.of_flat(layout, np.zeros(5, dtype=np.float32))
    with pytest.raises(InvalidField):
        TensorSet.of(MIXED).flat()
    assert TensorSet.of_flat(layout, np.ones(6, dtype=np.float32), "f16").flat().tolist() == [1.0] * 6


def test_set_above_one_slice_is_named_by_its_content() -> None:
    large = TensorSet.of({"w": np.zeros(SLICE_BYTES // 4 + 1, dtype=np.float32)})
    assert large.data is not None
    assert large.transfer == content_name(large.data)
    announced = TensorSet(layout=large.layout, data=None, transfer=large.transfer)
    with pytest.raises(InvalidField, match="have not arrived"):
        announced.flat()
    assert announced.filled(large.data) == large


@pytest.mark.parametrize("transfer", ["ab" * 16, None])
def test_small_set_is_there_and_has_no_transfer(transfer: str | None) -> None:
    with pytest.raises(InvalidField):
        TensorSet(layout=Layout.of(MIXED), data=None, transfer=transfer)


def test_value_beyond_f16_is_refused_by_the_sender_with_its_size() -> None:
    with pytest.raises(InvalidField, match="100000"):
        narrow(np.array([1.0, -1e5], dtype=np.float32))
    assert narrow(np.array([F16_LARGEST], dtype=np.float32))[0] == F16_LARGEST


def test_infinity_that_arrives_under_f16_is_refused() -> None:
    layout = Layout.of({"w": np.zeros(2, dtype=np.float32)})
    hostile = np.array([1.0, np.inf], dtype="<f2").tobytes()
    arrived = TensorSet(layout=layout, encoding="f16", data=memoryview(hostile))
    with pytest.raises(Overflow, match="1 infinite"):
        arrived.flat()
    with pytest.raises(Overflow):
        arrived.arrays()


def test_nan_passes_both_encodings_for_admission_to_judge() -> None:
    assert np.isnan(widen(narrow(np.array([np.nan], dtype=np.float32)))[0])


def test_names_digest_depends_on_order_and_on_where_a_name_ends() -> None:
    assert len({names_digest(n) for n in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], [])}) == 5
