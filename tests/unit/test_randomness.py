"""Derived seeds: equal names give equal streams, any other name another, for ever."""

from __future__ import annotations

import itertools

import numpy as np

from fedap_core.randomness import derive_seed, generator


def test_seeds_do_not_change_between_versions() -> None:
    """Written down once: another derivation would change every published number."""
    assert derive_seed(0, purpose="order", participant="c01", round_no=3) == 8_394_323_712_397_708_483


def test_every_argument_matters() -> None:
    seeds = [
        derive_seed(seed, purpose=purpose, participant=participant, round_no=round_no)
        for seed, purpose, participant, round_no in itertools.product(
            (0, 1, 11), ("order", "noise"), ("", "1", "a", "ab"), (-1, 0, 1, 11)
        )
    ]
    assert len(set(seeds)) == 3 * 2 * 4 * 4


def test_seeds_fit_a_signed_64_bit_number() -> None:
    seeds = [derive_seed(number, purpose="range") for number in range(2000)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62


def test_generators_of_one_name_agree_and_of_two_names_do_not() -> None:
    first = generator(7, purpose="split", participant="a").integers(0, 2**32, size=8)
    again = generator(7, purpose="split", participant="a").integers(0, 2**32, size=8)
    other = generator(7, purpose="split", participant="b").integers(0, 2**32, size=8)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
