"""Formats sealed data as tensor sets: updates, mixed rows, lists of uploads, requested rows.

Shapes and names only. How members decode the words, and which weights are allowed, must not be known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.contracts import Buffer
from protocol.errors import InvalidField
from protocol.tensors import Array, Layout, TensorSet, WireTensor

SEALED = "sealed"
"""The name of the only tensor of a sealed set."""

TAG_WORDS, SALT_WORDS = 2, 2
_OWNER = "@"


@dataclass(frozen=True, kw_only=True)
class NamedUpload:
    """An update that went into a row: its member, its round, its weight (of 2^20) and its salt."""

    member: str
    round_no: int
    weight: int
    salt: bytes


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """The uploads in a mixed row. member: the receiver of the row; round_no: the round it was mixed for."""

    member: str
    round_no: int
    uploads: tuple[NamedUpload, ...]


def update_layout(values: int) -> Layout:
    """Return the layout of an update: a word per value, the check value, the salt."""
    return _words_layout(values + TAG_WORDS + SALT_WORDS)


def row_layout(values: int) -> Layout:
    """Return the layout of a mixed row: the same without a salt."""
    return _words_layout(values + TAG_WORDS)


def _words_layout(words: int) -> Layout:
    return Layout((WireTensor(name=SEALED, dtype="int64", shape=(words,)),))


def words_of(tensors: TensorSet) -> Array:
    """Return the words of a sealed set; InvalidField if it is not one."""
    specs = tensors.layout.specs
    if len(specs) != 1 or specs[0].name != SEALED or specs[0].dtype != "int64" or len(specs[0].shape) != 1:
        raise InvalidField("sealed", tensors.layout.text, f"one int64 tensor {SEALED!r} of one dimension")
    return tensors.arrays()[SEALED]


def box_set(box: bytes) -> TensorSet:
    """Return sealed bytes, a multiple of 8, as a set."""
    return TensorSet.of({SEALED: np.frombuffer(box, dtype="<i8")})


def ingredients_set(made: Ingredients) -> TensorSet:
    """Encode ingredients for `uploads` of an order."""
    arrays: dict[str, Array] = {_OWNER + made.member: np.asarray(made.round_no, dtype=np.int64)}
    for one in made.uploads:
        low, high = np.frombuffer(one.salt, dtype="<i8").tolist()
        arrays[one.member] = np.asarray([one.round_no, one.weight, low, high], dtype=np.int64)
    return TensorSet.of(arrays)


def read_ingredients(tensors: TensorSet) -> Ingredients:
    """Undo `ingredients_set`; InvalidField if the set is not of that form."""
    (first, rounds), *others = tensors.arrays().items() or [("", np.zeros(0))]
    if not first.startswith(_OWNER) or rounds.shape != () or rounds.dtype != np.int64:
        raise InvalidField("uploads", first, f"{_OWNER}NAME with a round first")
    found = []
    for name, numbers in others:
        if numbers.shape != (4,) or numbers.dtype != np.int64:
            raise InvalidField(name, numbers.shape, "round, weight and two words of salt (int64)")
        round_no, weight = (int(one) for one in numbers[:2])
        salt = np.ascontiguousarray(numbers[2:]).tobytes()
        found.append(NamedUpload(member=name, round_no=round_no, weight=weight, salt=salt))
    return Ingredients(member=first.removeprefix(_OWNER), round_no=int(rounds), uploads=tuple(found))


def request_set(row: Mapping[str, int]) -> TensorSet:
    """Encode a requested row of W for `row` of an update."""
    return TensorSet.of({name: np.asarray(weight, dtype=np.int64) for name, weight in sorted(row.items())})


def read_request(tensors: TensorSet) -> tuple[tuple[str, int], ...]:
    """Undo `request_set`; InvalidField if the set is not of that form."""
    for name, number in tensors.arrays().items():
        if number.shape != () or number.dtype != np.int64:
            raise InvalidField(name, number.shape, "one whole number (int64)")
    return tuple((name, int(number)) for name, number in tensors.arrays().items())


def statistics_set(boxes: Sequence[tuple[str, Buffer]]) -> TensorSet:
    """Encode sealed statistics by member for `peers` of an order."""
    return TensorSet.of({name: np.frombuffer(box, dtype="<i8") for name, box in boxes})


def read_statistics_set(tensors: TensorSet) -> Mapping[str, bytes]:
    """Undo `statistics_set`."""
    return {name: np.ascontiguousarray(words).tobytes() for name, words in tensors.arrays().items()}


def most_box_bytes(plain_bytes: int) -> int:
    """Return the largest size of sealed statistics that have `plain_bytes` in clear: plus names, shapes and padding."""
    return 2 * plain_bytes + 16 * 1024 + math.ceil(plain_bytes / 8)
