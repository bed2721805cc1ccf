"""Claims about lines that come again and again: a few are told, all are counted, and memory is bounded."""

from __future__ import annotations

from protocol.repeats import ALL_AT_ONCE, AT_ONCE, SUBJECTS, WINDOW_S, Omitted, Repeats


def test_the_first_few_are_told_and_the_rest_is_a_number() -> None:
    repeats = Repeats()
    told = [repeats.admit("x", now=0.001 * number) for number in range(4_322)]
    assert told == [True] * AT_ONCE + [False] * (4_322 - AT_ONCE)
    assert repeats.omitted(WINDOW_S - 1.0) == []
    assert repeats.omitted(WINDOW_S) == [Omitted(subject="x", times=4_312, seconds=WINDOW_S)]
    assert repeats.omitted(2 * WINDOW_S) == []
    assert repeats.admit("x", now=WINDOW_S)


def test_what_one_says_does_not_keep_another_from_being_told() -> None:
    repeats = Repeats()
    for _ in range(1_000):
        repeats.admit("x", now=0.0)
    assert repeats.admit("y", now=0.0)


def test_all_subjects_together_have_a_budget_and_nothing_goes_uncounted() -> None:
    repeats, lines = Repeats(), 10 * SUBJECTS
    told = sum(repeats.admit(f"subject {number}", now=0.0) for number in range(lines))
    counted = repeats.omitted(1.0, at_once=True)
    assert told == ALL_AT_ONCE
    assert told + sum(one.times for one in counted) == lines
    assert len(counted) <= SUBJECTS + 1


def test_the_budget_comes_back_with_the_next_window() -> None:
    repeats = Repeats()
    for number in range(ALL_AT_ONCE):
        assert repeats.admit(f"subject {number}", now=0.0)
    assert not repeats.admit("one more", now=1.0)
    assert repeats.admit("later", now=WINDOW_S)
