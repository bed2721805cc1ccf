"""The form of sealed data as tensor sets: updates, mixed rows, lists of uploads, requested rows.

Shapes and names only. How members decode the words, and which weights are allowed, must not be known
here.
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
"""The name of the one tensor of a sealed set."""

TAG_WORDS, SALT_WORDS = 2, 2
_OWNER = "@"


@dataclass(frozen=True, kw_only=True)
class NamedUpload:
    """An update that went into a row: whose, of which round, how much of it (of 2^20), and its salt."""

    member: str
    round_no: int
    weight: int
    salt: bytes


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """What a mixed row consists of. member, round_no: whose row it is, and the round that it was made for."""

    member: str
    round_no: int
    uploads: tuple[NamedUpload, ...]


def update_layout(values: int) -> Layout:
    """Of an update with so many values: a word each, the check value, the salt."""
    return _words_layout(values + TAG_WORDS + SALT_WORDS)


def row_layout(values: int) -> Layout:
    """Of a mixed row: the same without a salt."""
    return _words_layout(values + TAG_WORDS)


def _words_layout(words: int) -> Layout:
    return Layout((WireTensor(name=SEALED, dtype="int64", shape=(words,)),))


def words_of(tensors: TensorSet) -> Array:
    """The words of a sealed set. InvalidField if it is none."""
    specs = tensors.layout.specs
    if len(specs) != 1 or specs[0].name != SEALED or specs[0].dtype != "int64" or len(specs[0].shape) != 1:
        raise InvalidField("sealed", tensors.layout.text, f"one int64 tensor {SEALED!r} of one dimension")
    return tensors.arrays()[SEALED]


def box_set(box: bytes) -> TensorSet:
    """Sealed bytes, a multiple of 8, as a set."""
    return TensorSet.of({SEALED: np.frombuffer(box, dtype="<i8")})


def box_of(tensors: TensorSet) -> bytes:
    """Back from `box_set`."""
    return words_of(tensors).tobytes()


def ingredients_set(made: Ingredients) -> TensorSet:
    """For `uploads` of an order."""
    arrays: dict[str, Array] = {_OWNER + made.member: np.asarray(made.round_no, dtype=np.int64)}
    for one in made.uploads:
        low, high = np.frombuffer(one.salt, dtype="<i8").tolist()
        arrays[one.member] = np.asarray([one.round_no, one.weight, low, high], dtype=np.int64)
    return TensorSet.of(arrays)


def read_ingredients(tensors: TensorSet) -> Ingredients:
    """Back from `ingredients_set`; InvalidField if it is none."""
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
    """For `row` of an update."""
    return TensorSet.of({name: np.asarray(weight, dtype=np.int64) for name, weight in sorted(row.items())})


def read_request(tensors: TensorSet) -> tuple[tuple[str, int], ...]:
    """Back from `request_set`; InvalidField if it is none."""
    for name, number in tensors.arrays().items():
        if number.shape != () or number.dtype != np.int64:
            raise InvalidField(name, number.shape, "one whole number (int64)")
    return tuple((name, int(number)) for name, number in tensors.arrays().items())


def gathered(boxes: Sequence[tuple[str, Buffer]]) -> TensorSet:
    """For `peers` of an order: sealed statistics by member."""
    return TensorSet.of({name: np.frombuffer(box, dtype="<i8") for name, box in boxes})


def apart(tensors: TensorSet) -> Mapping[str, bytes]:
    """Back from `gathered`."""
    return {name: np.ascontiguousarray(words).tobytes() for name, words in tensors.arrays().items()}


def most_box_bytes(plain_bytes: int) -> int:
    """How large sealed statistics may be, where in clear they have so many bytes: names, shapes and padding on top."""
    return 2 * plain_bytes + 16 * 1024 + math.ceil(plain_bytes / 8)
