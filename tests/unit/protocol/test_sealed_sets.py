"""Claims about the lists of a sealed run on the wire: they may be far longer than other lists in a header."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.codec import decode, encode
from protocol.errors import InvalidField
from protocol.limits import ITEMS
from protocol.messages import Train, Update
from protocol.sealed_sets import (
    Ingredients,
    NamedUpload,
    ingredients_set,
    read_ingredients,
    read_request,
    request_set,
)
from protocol.tensors import TensorSet
from tests.unit.protocol.samples import train, update

MEMBERS = [f"hospital-{number:04d}" for number in range(16 * ITEMS)]


def test_the_uploads_of_a_thousand_members_come_back_from_an_order() -> None:
    uploads = tuple(
        NamedUpload(member=name, round_no=place, weight=place + 1, salt=place.to_bytes(16, "little"))
        for place, name in enumerate(MEMBERS)
    )
    made = Ingredients(member=MEMBERS[0], round_no=7, uploads=uploads)
    found = decode([bytes(frame) for frame in encode(replace(train(7), uploads=ingredients_set(made)))])
    assert isinstance(found, Train)
    assert found.uploads is not None
    assert read_ingredients(found.uploads) == made


def test_a_row_over_a_thousand_members_comes_back_from_an_update() -> None:
    row = {name: place for place, name in enumerate(MEMBERS)}
    found = decode([bytes(frame) for frame in encode(replace(update(7), row=request_set(row)))])
    assert isinstance(found, Update)
    assert found.row is not None
    assert dict(read_request(found.row)) == row


def test_what_is_no_list_of_uploads_is_refused() -> None:
    for wrong in (TensorSet.of({}), request_set({"a": 1})):
        with pytest.raises(InvalidField):
            read_ingredients(wrong)
