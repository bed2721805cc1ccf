"""Claims about the text of key files: what was written is read, and a secret shows nowhere."""

from __future__ import annotations

import pytest

from protocol.errors import InvalidField
from protocol.keys import KeyPair, parse_pair, parse_public

PUBLIC, SECRET = "3p.td&38xIKgCaWIn0Mz:O}w0iiTFtXKq[dg2H.Y", "2y*K2td7W8.a[JT+p-f(L=&QQK&iJoDxl/SL*pVp"


def test_a_pair_comes_back_from_its_text() -> None:
    pair = KeyPair(public=PUBLIC, secret=SECRET)
    assert parse_pair(pair.text) == pair
    assert parse_public(pair.text) == PUBLIC


@pytest.mark.parametrize("text", [PUBLIC, f" {PUBLIC}\n", f'public = "{PUBLIC}"\n'])
def test_a_public_half_may_stand_alone(text: str) -> None:
    assert parse_public(text) == PUBLIC
    with pytest.raises(InvalidField):
        parse_pair(text)


@pytest.mark.parametrize(
    "text",
    ["", "public", f'secret = "{SECRET}"', f'public = "{PUBLIC[:-1]}"\nsecret = "{SECRET}"', "public = 1\nsecret = 2"],
)
def test_anything_else_is_refused_without_showing_a_secret(text: str) -> None:
    for parse in (parse_pair, parse_public):
        with pytest.raises(InvalidField) as caught:
            parse(text)
        assert SECRET not in str(caught.value)


def test_a_broken_secret_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidField) as caught:
        KeyPair(public=PUBLIC, secret=SECRET[:-1])
    assert SECRET[:-1] not in str(caught.value)
    assert SECRET not in repr(KeyPair(public=PUBLIC, secret=SECRET))
