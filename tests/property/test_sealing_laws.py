"""Laws of sealed arithmetic: sums are exact, check values catch every change, rows are requests within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput
from fedap_core.sealing import check_value, fixed_point, rows, word_mixing
from fedap_core.sealing.fixed_point import WHOLE, Words

NAMES = tuple("abcdefgh")
shares = some.lists(some.floats(0.0, 1.0), min_size=2, max_size=8).filter(lambda found: sum(found) > 1e-6)


def inner_product(secret: Words, integers: NDArray[np.int64]) -> int:
    return check_value.product_with(check_value.limbs(secret), integers)


def mixed(weights: list[list[int]], words: Words, threads: int = 1) -> Words:
    out = np.zeros((len(weights), words.shape[1]), dtype=np.uint64)

    def read(start: int, tile: Words) -> None:
        tile[:] = words[:, start : start + tile.shape[1]]

    def write(start: int, found: Words) -> None:
        out[:, start : start + found.shape[1]] = found

    word_mixing.mix_words(np.asarray(weights), words.shape[1], read=read, write=write, threads=threads)
    return out


@given(some.integers(0, 2**32 - 1), some.integers(1, 6), some.sampled_from((1, 5, 4096, 9000)))
@settings(max_examples=40, deadline=None)
def test_sums_of_words_are_exact_whatever_the_threads(seed: int, members: int, count: int) -> None:
    """Python's integers are the reference; 2^64 - 1 in every word is the largest that a half can be."""
    chance = np.random.default_rng(seed)
    words = chance.integers(0, 2**64, (members, count), dtype=np.uint64)
    words[:, 0] = 2**64 - 1
    weights = [
        list(rows.rounded({str(j): float(w) for j, w in enumerate(chance.random(members) + 1e-9)}).values())
        for _ in range(members)
    ]
    found = mixed(weights, words)
    assert np.array_equal(found, mixed(weights, words, threads=2))
    for row, got in zip(weights, found, strict=True):
        for column in {0, count // 2, count - 1}:
            exact = sum(w * int(x) for w, x in zip(row, words[:, column], strict=True)) % 2**64
            assert int(got[column]) == exact


@given(some.lists(some.floats(-65535.0, 65535.0, width=32), min_size=1, max_size=50))
@settings(max_examples=60, deadline=None)
def test_a_value_alone_comes_back_within_half_a_step(values: list[float]) -> None:
    """Rounding to multiples of 2^-24 is off by 2^-25 at most; float32 rounds by half its spacing on top."""
    given_ = np.asarray(values, dtype=np.float32)
    sums = fixed_point.signed(fixed_point.to_words(given_)) * WHOLE
    assert fixed_point.is_possible(sums)
    back = fixed_point.to_values(sums)
    assert (np.abs(back.astype(np.float64) - given_) <= 2.0**-25 + np.spacing(np.abs(given_))).all()


@pytest.mark.parametrize("value", [65536.0, -65536.0, float("nan"), float("inf")])
def test_a_value_out_of_range_is_not_sealed(value: float) -> None:
    with pytest.raises(InvalidInput, match="below 65536"):
        fixed_point.to_words(np.asarray([0.0, value], dtype=np.float32))


@given(some.integers(0, 2**32 - 1), some.sampled_from((1, 1023, 1025, 70_000)))
@settings(max_examples=20, deadline=None)
def test_the_inner_product_is_that_of_whole_numbers(seed: int, size: int) -> None:
    chance = np.random.default_rng(seed)
    secret = check_value.residues(chance.integers(0, 2**64, size, dtype=np.uint64))
    integers = chance.integers(-(2**60), 2**60, size)
    integers[0], secret[-1] = -(2**60) + 1, check_value.PRIME - 1
    exact = sum(int(a) * int(b) for a, b in zip(secret, integers, strict=True)) % check_value.PRIME
    assert inner_product(secret, integers) == exact


class Mixed:
    """One honest mix of three uploads: words without pads, check values, and what a receiver compares."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        values = self.chance.normal(0.0, 1.0, (3, 40)).astype(np.float32)
        self.words = np.stack([fixed_point.to_words(one) for one in values])
        self.secret = check_value.residues(self.chance.integers(0, 2**64, 40, dtype=np.uint64))
        self.masks = [int(one) for one in self.chance.integers(0, check_value.PRIME, 3)]
        self.weights = list(rows.rounded({"a": 0.5, "b": 0.3, "c": 0.2}).values())
        self.tags = [
            (inner_product(self.secret, fixed_point.signed(q)) + s) % check_value.PRIME
            for q, s in zip(self.words, self.masks, strict=True)
        ]
        halves = np.asarray([check_value.halves(tag) for tag in self.tags], dtype=np.uint64)
        self.result = mixed([self.weights], np.concatenate((self.words, halves), axis=1))[0]

    def accepts(self, result: Words, weights: list[int] | None = None) -> bool:
        sums = fixed_point.signed(result[:-2])
        if not fixed_point.is_possible(sums):
            return False
        tag = check_value.whole(int(result[-2]), int(result[-1]))
        expected = inner_product(self.secret, sums)
        expected += check_value.weighted(weights or self.weights, self.masks)
        return tag == expected % check_value.PRIME


@given(some.integers(0, 2**32 - 1), some.integers(0, 41), some.integers(0, 63))
@settings(max_examples=80, deadline=None)
def test_every_flipped_bit_of_a_sum_is_noticed(seed: int, place: int, bit: int) -> None:
    mix = Mixed(seed)
    assert mix.accepts(mix.result)
    changed = mix.result.copy()
    changed[place] ^= np.uint64(1 << bit)
    # the same check value modulo p can be written in two ways only above p, which no flip of one bit reaches
    assert not mix.accepts(changed)


@given(some.integers(0, 2**32 - 1), some.integers(0, 39), some.sampled_from((-8, -2, -1, 1, 2, 8)))
@settings(max_examples=60, deadline=None)
def test_multiples_of_the_prime_cannot_be_added_to_a_value(seed: int, place: int, times: int) -> None:
    """A multiple of p does not change <r, R> mod p, but it takes R out of the range of possible sums."""
    mix = Mixed(seed)
    changed = mix.result.copy()
    changed[place : place + 1] += np.uint64(times * check_value.PRIME % 2**64)
    assert not mix.accepts(changed)


@given(some.integers(0, 2**32 - 1), some.permutations([0, 1, 2]))
@settings(max_examples=40, deadline=None)
def test_a_row_made_with_other_weights_than_announced_is_noticed(seed: int, order: list[int]) -> None:
    assume(order != [0, 1, 2])
    mix = Mixed(seed)
    assert not mix.accepts(mix.result, [mix.weights[place] for place in order])


@given(some.integers(0, 2**32 - 1), some.integers(0, 2), some.integers(1, check_value.PRIME - 1))
@settings(max_examples=40, deadline=None)
def test_an_old_sum_is_not_taken_for_one_of_new_uploads(seed: int, place: int, difference: int) -> None:
    """One upload that is announced as another: the number that hides its check value is another, too."""
    mix = Mixed(seed)
    mix.masks[place] = (mix.masks[place] + difference) % check_value.PRIME
    assert not mix.accepts(mix.result)


@given(shares)
def test_rounded_rows_sum_to_the_whole_and_are_off_by_less_than_one(found: list[float]) -> None:
    row = dict(zip(NAMES, found, strict=False))
    whole = rows.rounded(row)
    assert sum(whole.values()) == WHOLE
    total = sum(found)
    assert all(abs(whole[name] - row[name] / total * WHOLE) < 1.0 + 1e-6 for name in row)


def test_ties_go_to_the_first_names() -> None:
    """2^20 = 3 * 349525 + 1: the one that is left goes to a, whatever the order of the map."""
    assert rows.rounded({"c": 1.0, "a": 1.0, "b": 1.0}) == {"a": 349526, "b": 349525, "c": 349525}


@given(shares, some.sampled_from((None, 0.2, 0.5)), some.floats(0.05, 1.0))
def test_what_is_requested_is_never_refused(found: list[float], own: float | None, most: float) -> None:
    row = dict(zip(NAMES, found, strict=False))
    rule = rows.RowRule(own_share=own, max_peer_weight=most)
    asked = rows.request(row, "a", rule)
    assert rows.objection(asked, "a", frozenset(row), rule) == ""
    if len(row) > 2 and own is not None and most <= 0.9 * (1.0 - own):  # a higher cap lets one peer give everything
        assert sum(weight > rows.SLACK for name, weight in asked.items() if name != "a") >= 2


@given(shares, some.sampled_from((None, 0.5)), some.sets(some.sampled_from(NAMES)))
def test_a_mix_without_some_is_a_row_and_never_one_other_member_alone(
    found: list[float], own: float | None, absent: set[str]
) -> None:
    row = dict(zip(NAMES, found, strict=False))
    rule = rows.RowRule(own_share=own, max_peer_weight=0.25)
    asked = rows.request(row, "a", rule)
    worth = {name: 1.0 / (1 + place) for place, name in enumerate(sorted(set(row) - absent))}
    for to_self in (False, True):
        got = rows.granted(asked, "a", worth, rule, members=len(row), to_self=to_self)
        peers = [name for name, weight in got.items() if weight and name != "a"]
        assert not got or sum(got.values()) == WHOLE
        assert set(got) <= set(worth)
        assert len(row) == 2 or len(peers) != 1


def test_who_fits_nobody_keeps_its_own_model() -> None:
    """Where the strategy leaves such a member alone."""
    rule = rows.RowRule(own_share=0.5, max_peer_weight=0.25, leaves_alone=True)
    asked = rows.request({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}, "a", rule)
    assert asked == {"a": WHOLE, "b": 0, "c": 0, "d": 0}
    assert rows.objection(asked, "a", frozenset("abcd"), rule) == ""
    everybody = dict.fromkeys("abcd", 1.0)
    assert rows.granted(asked, "a", everybody, rule, members=4) == {"a": WHOLE}
    assert rows.granted(asked, "a", everybody, rule, members=4, to_self=True) == {"a": WHOLE}


def test_everybody_there_gets_what_was_requested() -> None:
    rule = rows.RowRule(own_share=0.5, max_peer_weight=0.25)
    asked = rows.request({"a": 0.5, "b": 0.1, "c": 0.2, "d": 0.2}, "a", rule)
    assert rows.agree(rows.granted(asked, "a", dict.fromkeys("abcd", 1.0), rule, members=4), asked)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}, "of b, expected at most"),
        ({"a": 0.75, "b": 0.25, "c": 0.0, "d": 0.0}, "of its own, expected 0.5"),
        ({"a": 0.5, "b": 0.25, "c": 0.25}, "d for one"),
    ],
)
def test_a_row_that_asks_for_one_peer_alone_is_refused(row: dict[str, float], says: str) -> None:
    rule = rows.RowRule(own_share=0.5, max_peer_weight=0.25)
    assert says in rows.objection(rows.rounded(row), "a", frozenset("abcd"), rule)
